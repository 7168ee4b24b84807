"""Declared: what files say that resources shall be, compared with what they are, and made so in one transaction."""

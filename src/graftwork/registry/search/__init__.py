"""search: a small filter language and full text over versions, in bound SQL."""

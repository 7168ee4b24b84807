"""Promotion policies: which versions start a rollout by themselves, and when."""

"""Prompt learning: virtual tokens before every prompt, given by their keys and values or by their embeddings."""

"""Speaks HTTP: the inference doors, our API, health and metrics."""

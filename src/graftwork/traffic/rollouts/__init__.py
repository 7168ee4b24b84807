"""Moves a route from one version to another by steps, and takes it back at once."""

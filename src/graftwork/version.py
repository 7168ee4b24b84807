"""The version of this package; a test compares it with pyproject.toml and the changelog."""

__version__ = "0.1.0"

"""Keyrings for tests."""

from __future__ import annotations

from graftwork.artifacts.keyring import KEY_BYTES, Keyring


def keyring(current: str = "first", *others: str) -> Keyring:
    """Keys made of their names."""
    return Keyring(current, {name: name.encode().ljust(KEY_BYTES, b".") for name in (current, *others)}, {})

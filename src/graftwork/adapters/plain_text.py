"""Plain text: what adapters say of themselves goes into messages and JSON, where half a surrogate pair cannot."""

from __future__ import annotations


def is_text(value: str) -> bool:
    """Whether it can be written as UTF-8; JSON can hold halves of surrogate pairs, which cannot."""
    return not any("\ud800" <= character <= "\udfff" for character in value)


def plain(value: str) -> str:
    """The text itself, or with an escape for whatever cannot be written as UTF-8."""
    return value if is_text(value) else value.encode("utf-8", "backslashreplace").decode()

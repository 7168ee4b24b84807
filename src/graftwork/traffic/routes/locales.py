"""Locales: which of the language tags that rules name a request wants most; RFC 4647's lookup."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator

#: Of an Accept-Language header, so that nobody makes this slow.
MAX_CHARACTERS, MAX_RANGES = 1024, 32
_RANGE = re.compile(
    r"\s*([A-Za-z]{1,8}(?:-[A-Za-z0-9]{1,8})*|\*)\s*(?:;\s*q\s*=\s*([01](?:\.[0-9]{0,3})?))?\s*", re.ASCII
)


def read_accept_language(text: str) -> tuple[str, ...]:
    """Its ranges (RFC 9110 §12.5.4), the most wanted first; what is malformed or has weight 0 is left out."""
    found: list[tuple[float, str]] = []
    for part in text[:MAX_CHARACTERS].split(",")[:MAX_RANGES]:
        read = _RANGE.fullmatch(part)
        weight = float(read[2] or 1) if read else 0.0
        if read and 0 < weight <= 1:
            found.append((weight, read[1].lower()))
    return tuple(tag for _, tag in sorted(found, key=lambda one: -one[0]))  # stable: of equal ones the first


def lookup(ranges: Iterable[str], tags: Container[str]) -> str | None:
    """The tag that fits best (RFC 4647 §3.4): each range in turn, shortened from its end until it is a tag.

    `tags` are in lower case; a `*` asks for nothing in particular and is passed over.
    """
    for wanted in ranges:
        for shorter in shortened(wanted.lower()):
            if shorter in tags:
                return shorter
    return None


def shortened(tag: str) -> Iterator[str]:
    """`zh-hant-cn`, `zh-hant`, `zh`; a single letter goes with what stands behind it."""
    parts = tag.split("-")
    while parts:
        yield "-".join(parts)
        parts.pop()
        if parts and len(parts[-1]) == 1:
            parts.pop()

"""labels: what a node of a graph is called where people read it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: Digits of a digest that are shown; as many as make a reference.
_DIGITS = 12
#: Further names of the same bytes that are shown.
_NAMES = 3


def label(node: Mapping[str, Any]) -> str:
    """`tone:1.4.0 (@production)`, `dataset:s3://corpora/eu@sha256:0123456789ab`; versions that are gone by digest.

    Where the same bytes have more names: `tone:1.4.0 (@production), also copy:1.0.0 (development)`.
    """
    if not node["versions"]:
        return _short(node["id"])
    first, *others = [_registered(one) for one in node["versions"]]
    if not others:
        return first
    more = f" and {len(others) - _NAMES} more" if len(others) > _NAMES else ""
    return f"{first}, also {', '.join(others[:_NAMES])}{more}"


def _registered(one: Mapping[str, Any]) -> str:
    held = [f"@{alias}" for alias in one["aliases"]] or [one["stage"]]
    return f"{one['adapter']}:{one['version']} ({', '.join(held)})"


def _short(text: str) -> str:
    before, colon, digits = text.rpartition(":")
    is_digest = len(digits) > _DIGITS and set(digits) <= set("0123456789abcdef")
    return f"{before}{colon}{digits[:_DIGITS]}" if is_digest else text

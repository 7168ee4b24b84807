"""labels: what a node of a graph is called where people read it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: Digits of a digest that are shown; as many as make a reference.
_DIGITS = 12


def label(node: Mapping[str, Any]) -> str:
    """`tone:1.4.0 (production)`, `dataset:s3://corpora/eu@sha256:0123456789ab`; versions that are gone by digest."""
    registered = node["versions"]
    if not registered:
        return _short(node["id"])
    held = [f"@{alias}" for alias in registered[0]["aliases"]] or [registered[0]["stage"]]
    names = [f"{one['adapter']}:{one['version']}" for one in registered]
    return f"{', '.join(names)} ({', '.join(held)})"


def _short(text: str) -> str:
    before, colon, digits = text.rpartition(":")
    is_digest = len(digits) > _DIGITS and set(digits) <= set("0123456789abcdef")
    return f"{before}{colon}{digits[:_DIGITS]}" if is_digest else text

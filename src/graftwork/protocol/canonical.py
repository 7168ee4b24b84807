"""Canonical JSON: the one text of a value (RFC 8785), as it is stored and as it is hashed."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import rfc8785

from graftwork.errors import InvalidRequest


def canonical(value: Any, *, what: str) -> str:
    """The canonical JSON text of `value`.

    Raises:
        InvalidRequest: naming `what`, when the value has no canonical form (NaN, an integer beyond 2^53, a
            key that is not a string, broken Unicode, or nesting without end).
    """
    try:
        return rfc8785.dumps(value).decode()
    except rfc8785.IntegerDomainError as exc:
        raise InvalidRequest(
            f"{what} holds an integer beyond 2^53, which JSON readers would round; write it as a string.",
            field=what,
        ) from exc
    except (rfc8785.CanonicalizationError, RecursionError) as exc:
        raise InvalidRequest(f"{what} cannot be written as JSON: {exc}.", field=what) from exc


def parse(text: str) -> Any:
    """The value of a text that `canonical` wrote."""
    return json.loads(text)


def sha256(text: str) -> str:
    """`sha256:<hex>` of a text in UTF-8."""
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"

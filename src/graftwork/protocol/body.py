"""Body: a request body is read in one place, and what is wrong with it is said by field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import from_json

from graftwork.errors import InvalidRequest

#: Most lists, objects and members of objects in one body: reading them holds up everyone, 40 ms for so many.
MAX_NODES = 100_000
#: In smaller bodies there cannot be enough of them to matter.
_SMALL = 64 << 10


class Body(BaseModel):
    """A JSON request body: strict types, finite numbers, unknown fields kept aside in `model_extra`."""

    model_config = ConfigDict(strict=True, allow_inf_nan=False, extra="allow", frozen=True, protected_namespaces=())

    @classmethod
    def read(cls, raw: bytes | bytearray) -> Self:
        """The body in `raw`.

        Raises:
            InvalidRequest: malformed JSON, a wrong type or a value out of range; `field` names the first one. Or, seen
                before any of it is read, more than `MAX_NODES` lists, objects and members.
        """
        if len(raw) > _SMALL and _nodes(raw) > MAX_NODES:
            raise InvalidRequest(
                f"The request body has more than {MAX_NODES} lists, objects and members of objects; split it."
            )
        try:
            body = cls.model_validate_json(raw)
        except ValidationError as error:
            raise in_words(error) from None
        body.check()
        return body

    def check(self) -> None:
        """What one field alone cannot tell; raises InvalidRequest."""


def read_text(text: str) -> Any:
    """The JSON in a text of a body, held to the same limits as the body itself; raises ValueError."""
    raw = text.encode()
    if len(raw) > _SMALL and _nodes(raw) > MAX_NODES:
        raise ValueError(f"has more than {MAX_NODES} lists, objects and members of objects")
    return from_json(raw, allow_inf_nan=False)


def _nodes(raw: bytes | bytearray) -> int:
    """Lists, objects and members in JSON text; of what is no JSON any number."""
    import numpy as np  # only for large bodies, and it lets other threads run meanwhile

    kept = raw.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in raw else raw
    text = np.frombuffer(kept, np.uint8)
    within = np.logical_xor.accumulate(text == ord('"'))  # a string
    return int(np.count_nonzero(((text == ord("[")) | (text == ord("{")) | (text == ord(":"))) & ~within))


def in_words(error: ValidationError) -> InvalidRequest:
    """What is wrong, by the first field that is."""
    first = error.errors(include_url=False)[0]
    kind, field = first["type"], ".".join(str(part) for part in first["loc"])
    if not field and kind != "json_invalid":
        return InvalidRequest("The request body must be a JSON object.")
    if not field:
        return InvalidRequest(f"The request body is not JSON: {first['msg'].removeprefix('Invalid JSON: ')}.")
    return InvalidRequest(f"{field} {_complaint(kind, first)}.", field=field)


def _complaint(kind: str, error: Mapping[str, Any]) -> str:
    limits = error.get("ctx", {})
    match kind:
        case "missing":
            return "is required"
        case "extra_forbidden":
            return "is not a field of this request"
        case "greater_than_equal":
            return f"must be at least {limits['ge']}{_given(error)}"
        case "greater_than":
            return f"must be more than {limits['gt']}{_given(error)}"
        case "less_than_equal":
            return f"must be at most {limits['le']}{_given(error)}"
        case "too_short":
            return f"must have at least {limits['min_length']}"
        case "string_pattern_mismatch":
            return f"must match {limits['pattern']}"
        case "too_long":
            return f"must have at most {limits['max_length']} entries"
        case "string_too_long":
            return f"must have at most {limits['max_length']} characters"
        case "value_error":
            return str(limits["error"])
        case _:
            message: str = error["msg"]
            return message.replace("Input should be", "must be") + _given(error)


def _given(error: Mapping[str, Any]) -> str:
    value = error["input"]
    if isinstance(value, bool | None):
        return f" (got {'null' if value is None else str(value).lower()})"
    if isinstance(value, int | float):
        return f" (got {str(value)[:32]})"
    return f" (got a {type(value).__name__})" if isinstance(value, dict | list) else ""

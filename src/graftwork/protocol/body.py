"""Body: a request body is read in one place, and what is wrong with it is said by field."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Self, get_args

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, from_json

from graftwork.errors import InvalidRequest

#: Most lists, objects and members of objects in one body: reading them holds up everyone, 40 ms for so many.
MAX_NODES = 100_000
#: In smaller bodies there cannot be enough of them to matter.
_SMALL = 64 << 10


@dataclass(frozen=True)
class ReadAs:
    """What the JSON in a field is read as when all of it is known; it is told and published as that."""

    annotation: Any

    def __get_pydantic_json_schema__(self, _: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return handler(TypeAdapter(self.annotation).core_schema)


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
            raise in_words(error, cls) from None
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


def in_words(error: ValidationError, model: type[BaseModel] | None = None) -> InvalidRequest:
    """What is wrong, by the first field that is; another kind of document goes before a field that is none, and
    that before one that is missing.

    Args:
        model: whose fields are told where one of the body is none of them.
    """
    errors = error.errors(include_url=False)
    others = (one for one in errors if one["loc"] in (("kind",), ("apiVersion",)) and one["type"] != "missing")
    first = next(chain(others, (one for one in errors if one["type"] == "extra_forbidden"), errors))
    kind, field = first["type"], ".".join(str(part) for part in first["loc"])
    if not field and kind != "json_invalid":
        return InvalidRequest("The request body must be a JSON object.")
    if not field:
        return InvalidRequest(f"The request body is not JSON: {first['msg'].removeprefix('Invalid JSON: ')}.")
    known = _fields_beside(model, first["loc"]) if model is not None and kind == "extra_forbidden" else []
    told = f"; there {'is' if len(known) == 1 else 'are'} {', '.join(known)}" if known else ""
    said = f"{field} {complaint(first)}{told}"
    return InvalidRequest(said if said.endswith("?") else f"{said}.", field=field)


def complaint(error: Mapping[str, Any]) -> str:
    """What one of pydantic's errors says of its field, as the rest of a sentence."""
    limits = error.get("ctx", {})
    match error["type"]:
        case "missing":
            return f"is required{_meant(error)}"
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


def _meant(error: Mapping[str, Any]) -> str:
    """The field that is there under a name much like the missing one."""
    there = error["input"] if isinstance(error["input"], Mapping) else ()
    close = difflib.get_close_matches(str(error["loc"][-1]), map(str, there), n=1, cutoff=0.75)
    return f"; is it what {close[0]!a} means?" if close else ""


def _fields_beside(model: type[BaseModel], place: Sequence[int | str]) -> list[str]:
    """The fields that the object at `place` but for its last step has, as they are written."""
    found = [model]
    for step in place[:-1]:
        fields = [field for one in found for name, field in one.model_fields.items() if step in (name, field.alias)]
        found = [inner for field in fields for inner in _models_of(field)] if fields else found  # in a list
    return [field.alias or name for one in found for name, field in one.model_fields.items()]


def _models_of(field: FieldInfo) -> Iterator[type[BaseModel]]:
    read_as = [one.annotation for one in field.metadata if isinstance(one, ReadAs)]
    for annotation in read_as or [field.annotation]:
        yield from _models(annotation)


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models(argument)


def _given(error: Mapping[str, Any]) -> str:
    value = error["input"]
    if isinstance(value, bool | None):
        return f" (got {'null' if value is None else str(value).lower()})"
    if isinstance(value, int | float):
        return f" (got {str(value)[:32]})"
    return f" (got a {type(value).__name__})" if isinstance(value, dict | list) else ""

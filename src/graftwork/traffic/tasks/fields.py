"""Fields: what a task's template is given beside the text, checked against what the task declares."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from graftwork.errors import InvalidRequest
from graftwork.protocol.tasks import FieldPart, Scalar

_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
}


def read_fields(declared: Mapping[str, FieldPart], given: Mapping[str, Any]) -> dict[str, Scalar]:
    """The value of each declared field: what was given, else its default.

    Raises:
        InvalidRequest: one is not declared, is missing, or is not what it may be; `field` is `fields.<name>`.
    """
    for name in given.keys() - declared.keys():
        known = f"; it has {', '.join(sorted(declared))}" if declared else ""
        raise InvalidRequest(f"The task has no field {name[:64]!a}{known}.", field="fields")
    values: dict[str, Scalar] = {}
    for name, part in declared.items():
        value = given.get(name, part.default)
        if value is None:
            raise InvalidRequest(f"The task asks for the field {name}.", field=f"fields.{name}")
        if (problem := problem_of(part, value)) is not None:
            raise InvalidRequest(f"The field {name} {problem}.", field=f"fields.{name}")
        values[name] = value
    return values


def problem_of(part: FieldPart, value: Any) -> str | None:
    """Why a field may not have this value."""
    if type(value) not in _TYPES[part.type]:
        return f"must be of the type {part.type}"
    if part.enum is not None and not any(type(one) is type(value) and one == value for one in part.enum):
        return f"must be one of {', '.join(map(str, part.enum))}"
    if isinstance(value, str):
        return f"has {len(value)} characters; it may have {part.max_length}" if len(value) > part.max_length else None
    least, most = part.minimum, part.maximum
    assert isinstance(value, int | float), "a boolean is a number to Python"
    if not math.isfinite(value) or (least is not None and value < least) or (most is not None and value > most):
        bounds = " and ".join(
            f"at {word} {bound:g}" for word, bound in (("least", least), ("most", most)) if bound is not None
        )
        return f"must be {bounds or 'finite'}"
    return None

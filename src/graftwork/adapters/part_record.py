"""PartRecord: a part without its weights, as plain JSON and back, for serving forms that are kept on disk."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from importlib import import_module
from typing import Any, get_type_hints

from pydantic import TypeAdapter

from graftwork.adapters.serving_form import Part, Weights

#: Only classes of this package are ever named by a record, or looked up for one.
_PACKAGE = "graftwork.adapters."


def record_of(part: Part) -> dict[str, Any] | None:
    """The class of a part and its fields other than weights; None where they would not come back the same."""
    path = f"{type(part).__module__}:{type(part).__qualname__}"
    weights = part.weights()
    try:
        adapters = _adapters(path)
        own = {name: getattr(part, name) for name in adapters if name not in weights}
        plain = {name: adapters[name].dump_python(value, mode="json") for name, value in own.items()}
        record: dict[str, Any] = json.loads(json.dumps({"class": path, "fields": plain}, allow_nan=False))
        back = part_of(record, weights)
    except (TypeError, ValueError, NameError):  # pydantic's errors are among them
        return None
    same = type(back) is type(part) and all(getattr(back, name) == value for name, value in own.items())
    return record if same else None


def part_of(record: Mapping[str, Any], weights: Mapping[str, Weights]) -> Part:
    """The part that a record was made of, on these weights.

    Raises:
        ValueError, TypeError, LookupError: when the record is not one of a part of this package.
    """
    path = record["class"]
    adapters, given = _adapters(path), dict[str, Any](weights)
    for name, value in record["fields"].items():
        given[name] = adapters[name].validate_python(value)
    return _class(path)(**given)


def _class(path: str) -> type[Part]:
    module, _, name = path.partition(":")
    found = getattr(import_module(module), name, None) if module.startswith(_PACKAGE) else None
    if not (isinstance(found, type) and issubclass(found, Part)):
        raise ValueError(f"{path} is no part that an adapter kind of this package has.")
    return found


@cache
def _adapters(path: str) -> Mapping[str, TypeAdapter[Any]]:
    """What reads and writes each field of a class by its type; one for weights is in a record only where it is None."""
    kind = _class(path)
    hints = get_type_hints(kind)
    weights = (Weights, Weights | None)
    return {field.name: TypeAdapter(None if (hint := hints[field.name]) in weights else hint) for field in fields(kind)}

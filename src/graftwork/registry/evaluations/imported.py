"""Imported: an evaluation read from another tool's file, and what those readers share."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from math import isfinite
from typing import Any, NoReturn

from graftwork.errors import InvalidRequest

Json = dict[str, Any]
_NO_NAME = re.compile(r"[^A-Za-z0-9._@/+:-]+")
_NUMBER = re.compile(r"\s*([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)\s*(?:[±%].*)?")


@dataclass(frozen=True)
class Imported:
    """The body of an evaluation, where in the file it was, and the lines of its results by example."""

    place: str
    evaluation: Json
    examples: tuple[Json, ...] = ()


def refuse(place: str, why: str) -> NoReturn:
    raise InvalidRequest(f"{place} {why}.", field="file")


def mapping(value: object, place: str) -> Json:
    if not isinstance(value, Mapping):
        refuse(place, f"must be an object, not {_kind(value)}")
    return dict(value)


def sequence(value: object, place: str) -> list[Any]:
    if not isinstance(value, list):
        refuse(place, f"must be a list, not {_kind(value)}")
    return value


def text(value: object, place: str) -> str:
    if not isinstance(value, str) or not value.strip():
        refuse(place, f"must be text, not {_kind(value)}")
    return value.strip()


def number(value: object, place: str) -> float:
    """A finite number, also one that is written as text: `20.0` or `20.0 ± 1.2`."""
    if isinstance(value, str) and (found := _NUMBER.fullmatch(value)):
        value = _float(found[1])
    if isinstance(value, bool) or not isinstance(value, int | float) or not _is_finite(value):
        refuse(place, f"must be a finite number, not {ascii(value)[:40]}")
    return float(value)


def name(value: str) -> str:
    """Free text as a name that evaluations and metrics may have."""
    return _NO_NAME.sub("-", value).strip("._@/+:-")[:128].rstrip("._@/+:-")


def moment(value: object, place: str) -> str | None:
    """RFC 3339, of a time in seconds, of YAML's dates, or of ISO 8601; without an offset it is UTC."""
    try:
        if isinstance(value, int | float) and not isinstance(value, bool):
            value = datetime.fromtimestamp(value, UTC)
        elif isinstance(value, str):
            value = datetime.fromisoformat(value)
        elif isinstance(value, date) and not isinstance(value, datetime):
            value = datetime(value.year, value.month, value.day)
    except (ValueError, OverflowError, OSError):
        refuse(place, f"is no time: {ascii(value)[:40]}")
    if value is None:
        return None
    if not isinstance(value, datetime):
        refuse(place, f"must be a time, not {_kind(value)}")
    aware = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    return aware.isoformat().replace("+00:00", "Z")


def plain(value: Any) -> Any:
    """The same of JSON's values only; without what is empty."""
    told = json.loads(json.dumps(value, default=str, skipkeys=True), parse_constant=str)
    return {key: item for key, item in told.items() if item not in (None, {}, [], "")}


def _float(written: str) -> float:
    try:
        return float(written)
    except ValueError:
        return float("nan")


def _is_finite(value: float) -> bool:
    try:
        return isfinite(value)
    except OverflowError:  # an integer too large for a float
        return False


def _kind(value: object) -> str:
    return "nothing" if value is None else type(value).__name__

"""Filter: what a search asks of versions, as a tree; and how a mistake in its text is told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from graftwork.errors import InvalidRequest

Operator = Literal["=", "<", "<=", ">", ">=", "~", "has"]
_SHOWN = 60  # characters before and after a mistake


@dataclass(frozen=True)
class Value:
    """What a field is compared with, and where that stands in the text."""

    text: str
    number: float | None  #: where it was written as one, without quotes
    at: int


@dataclass(frozen=True)
class Field:
    """The name of a field: `rank`; or, where there are many of a sort, `metrics.` and which of them."""

    name: str
    part: str
    at: int

    def __str__(self) -> str:
        return self.name + self.part


@dataclass(frozen=True)
class Term:
    """One comparison, true where the field has any of the values; `has` comes without."""

    field: Field
    operator: Operator
    values: tuple[Value, ...] = ()


@dataclass(frozen=True)
class Not:
    item: Filter


@dataclass(frozen=True)
class And:
    items: tuple[Filter, ...]


@dataclass(frozen=True)
class Or:
    items: tuple[Filter, ...]


#: Nothing is unknown: a comparison with what a version has not is false, and its `not` is true.
Filter = Term | Not | And | Or


class Mistake(InvalidRequest):
    """What is wrong at a place of a filter, under the text with a mark below that place."""

    def __init__(self, text: str, at: int, message: str, *, field: str = "filter") -> None:
        first = max(0, at - _SHOWN)
        shown = "".join(letter if letter.isprintable() else "·" for letter in text[first : at + _SHOWN])
        super().__init__(
            f"The {field} cannot be read at character {at + 1}: {message}\n  {shown}\n  {' ' * (at - first)}^",
            field=field,
        )

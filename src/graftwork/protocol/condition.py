"""Condition: what a metric must come to, `result >= 0.95` or `result / stable <= 1.2`; one comparison with a number.

condition = subject, compare, number ;   compare = "<" | "<=" | ">" | ">=" ;
subject   = "result", [ ( "-" | "/" ), "stable" ] ;
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Final, Literal, NoReturn

#: What is compared with the number: the candidate alone, or against stable.
Subject = Literal["result", "result - stable", "result / stable"]

MAX_LENGTH = 128
_TOKEN = re.compile(r"\s*(?:(<=|>=|[<>/-])|([A-Za-z_]\w*)|(\d+(?:\.\d+)?(?:[eE][+-]?\d+)?))")
_COMPARE: Final = ("<", "<=", ">", ">=")


@dataclass(frozen=True)
class Condition:
    """`subject compare bound`."""

    subject: Subject
    compare: str
    bound: float

    def __str__(self) -> str:
        return f"{self.subject} {self.compare} {self.bound:g}"

    @property
    def contrary(self) -> Condition:
        """What holds if and only if this one does not."""
        return Condition(self.subject, {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}[self.compare], self.bound)

    def holds_between(self, low: float, high: float) -> bool:
        """Whether it holds for everything from `low` to `high`."""
        match self.compare:
            case "<":
                return high < self.bound
            case "<=":
                return high <= self.bound
            case ">":
                return low > self.bound
            case _:
                return low >= self.bound


def parse_condition(text: str) -> Condition:
    """The condition that `text` says.

    Raises:
        ValueError: it says none; the message shows where.
    """
    if len(text) > MAX_LENGTH:
        raise ValueError(f"has at most {MAX_LENGTH} characters")
    return _Reader(text).whole()


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def whole(self) -> Condition:
        self._word("result")
        subject: Subject = "result"
        mark = self._one_of(("-", "/", *_COMPARE))
        if mark in ("-", "/"):
            subject = "result - stable" if mark == "-" else "result / stable"
            self._word("stable")
            mark = self._one_of(_COMPARE)
        bound = self._number()
        if self._text[self._at :].strip():
            self._wrong("the end")
        return Condition(subject, mark, bound)

    def _word(self, word: str) -> None:
        if (match := self._next()) is None or match[2] != word:
            self._wrong(word)
        self._at = match.end()

    def _one_of(self, marks: tuple[str, ...]) -> str:
        if (match := self._next()) is None or match[1] not in marks:
            self._wrong(f"one of {' '.join(marks)}")
        self._at = match.end()
        return match[1]

    def _number(self) -> float:
        sign = 1.0
        if (match := self._next()) is not None and match[1] == "-":
            sign, self._at = -1.0, match.end()
        if (match := self._next()) is None or match[3] is None or not math.isfinite(float(match[3])):
            self._wrong("a number")
        self._at = match.end()
        return sign * float(match[3])

    def _next(self) -> re.Match[str] | None:
        return _TOKEN.match(self._text, self._at)

    def _wrong(self, expected: str) -> NoReturn:
        rest = self._text[self._at :]
        at = self._at + len(rest) - len(rest.lstrip())
        found = ascii(self._text[at : at + 20]) if at < len(self._text) else "the end"
        raise ValueError(f"cannot be read at character {at + 1}: expected {expected}, found {found}")

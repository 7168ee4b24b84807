"""Likeness: how far two answers to one request are the same; pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

#: Characters of each text whose similarity is measured; it takes the square of them.
LONGEST: Final = 32_768


@dataclass(frozen=True)
class Likeness:
    """Of all choices together; `similarity` is their mean."""

    exact: bool  #: every character
    normalised: bool  #: but for case, and for how much blank there is
    similarity: float  #: 0 to 1: characters that stay, by the fewest that are put in or taken out
    length_ratio: float | None  #: characters of the second over those of the first; None: the first has none


def likeness(answer: Sequence[str], other: Sequence[str]) -> Likeness:
    """The likeness of as many texts on both sides, choice by choice."""
    pairs = list(zip(answer, other, strict=True))
    length = sum(map(len, answer))
    return Likeness(
        exact=all(one == two for one, two in pairs),
        normalised=all(_plain(one) == _plain(two) for one, two in pairs),
        similarity=fmean(_similarity(one, two) for one, two in pairs) if pairs else 1.0,
        length_ratio=sum(map(len, other)) / length if length else None,
    )


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


def _similarity(one: str, two: str) -> float:
    if one == two:
        return 1.0
    from rapidfuzz.distance import Indel  # only copies need it

    return float(Indel.normalized_similarity(one[:LONGEST], two[:LONGEST]))

"""Split: which arm a key falls to: by a hash to [0, 1), and slices of it or weights; the same on every server."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass

from graftwork.errors import InvalidRequest

#: As many bits of the hash as a double holds: with more, the last points would be rounded up to 1.
_BITS = 53


@dataclass(frozen=True)
class Slice:
    """The points `start <= point < end` that one arm answers; an arm may have several."""

    arm: str
    start: float
    end: float


def point_of(salt: str, key: str) -> float:
    """Where in [0, 1) a key lies: SHA-256 of both, so that two salts (two routes) split the same keys independently."""
    told = f"{len(salt)}:{salt}{key}".encode("utf-8", "surrogatepass")
    return (int.from_bytes(hashlib.sha256(told).digest()[:8]) >> (64 - _BITS)) / (1 << _BITS)


def pick(slices: Sequence[Slice], point: float) -> str:
    """The arm that has `point`; `slices` cover [0, 1)."""
    for one in slices:
        if one.start <= point < one.end:
            return one.arm
    raise AssertionError(f"no slice has {point}")


def shares(weights: Sequence[tuple[str, float]]) -> dict[str, float]:
    """Weights, relative to each other, as shares that add up to 1.

    Raises:
        InvalidRequest: a weight is negative or not finite, none is above 0, or two arms have one name.
    """
    names = [arm for arm, _ in weights]
    if len(set(names)) != len(names):
        raise InvalidRequest("Two arms have the same name.", field="arm")
    if any(not math.isfinite(weight) or weight < 0 for _, weight in weights):
        raise InvalidRequest("A weight is a number from 0 on.", field="weight")
    total = math.fsum(weight for _, weight in weights)
    if not 0 < total < math.inf:
        raise InvalidRequest("At least one weight is above 0.", field="weight")
    return {arm: weight / total for arm, weight in weights}


def draw(weights: Sequence[tuple[str, float]], point: float) -> int:
    """Which of some lots has a point, as its place in `weights`: each has the part of all points that its weight says.

    NOTE: weighted rendezvous hashing. A lot's name and the point make a time, exponentially distributed, at a rate that
    is the lot's weight; who is first has the point. A weight changes its own lot's time only, so that a point goes from
    one lot to another only where the second has grown beside the first: to a lot that is new, from one that is gone,
    and nowhere when others change or the order does. What remembers nothing cannot promise fewer moves
    (https://arxiv.org/abs/1809.04052).

    Args:
        weights: names, no two the same, and weights above 0, relative to each other.
    """
    if len(weights) == 1:
        return 0
    told = point.hex()
    return min(range(len(weights)), key=lambda at: (_time(weights[at], told), weights[at][0]))


def _time(lot: tuple[str, float], point: str) -> float:
    name, weight = lot
    return -math.log1p(-point_of(name, point)) / weight

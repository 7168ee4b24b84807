"""Split: which arm a key falls to, by a hash to [0, 1) and slices of it; the same on every server."""

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


def slices_of(weights: Sequence[tuple[str, float]]) -> tuple[Slice, ...]:
    """Slices of all arms that have a weight: from both ends by turns, and the last one, the stable arm, between.

        | first      | third   |     last     |  fourth |  second |
        0                                                         1

    What lies at an end depends on nothing but its own share. So of three arms, either of the first two grows at the
    cost of the last alone, and gives back to it what it took; of more, two that lie one behind the other move each
    other.
    Raises InvalidRequest as `shares`.
    """
    *ends, (last, left) = shares(weights).items()
    low, high = _ends(ends[0::2]), _ends(ends[1::2])
    inner = low[-1] if low else 0.0
    starts = [max(1.0 - one, inner) for one in high]  # rounding must leave no gap, and let nothing overlap
    if not left and starts:
        starts[-1] = inner
    elif not left:
        low[-1] = 1.0
    found = [Slice(arm, start, end) for (arm, _), start, end in zip(ends[0::2], [0.0, *low], low, strict=False)]
    found.append(Slice(last, low[-1] if low else 0.0, starts[-1] if starts else 1.0))
    behind = [Slice(arm, start, end) for (arm, _), start, end in zip(ends[1::2], starts, [1.0, *starts], strict=False)]
    return tuple(one for one in (*found, *reversed(behind)) if one.end > one.start)


def _ends(shared: Sequence[tuple[str, float]]) -> list[float]:
    """Where each ends, one laid behind the other."""
    return [min(math.fsum(share for _, share in shared[: count + 1]), 1.0) for count in range(len(shared))]

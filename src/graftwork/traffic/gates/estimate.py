"""Estimate: what a gate has measured, with the bounds of what is true; before anything is said of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from graftwork.protocol.condition import Subject
from graftwork.traffic.gates.confidence.interval import Interval
from graftwork.traffic.gates.evidence import Lacking


@dataclass(frozen=True)
class Estimate:
    """What the condition compares, measured and bounded at some alpha."""

    value: float
    bounds: Interval
    method: str
    n: int | None
    result: float
    stable: float | None = None
    n_stable: int | None = None


#: An estimate at a given alpha; the same evidence is bounded twice, for passing and for failing.
Measured = Callable[[float], Estimate]


def compared(subject: Subject, result: float, stable: float) -> float:
    """What the condition compares; NaN or infinite where stable is 0."""
    if subject == "result":
        return result
    if subject == "result - stable":
        return result - stable
    if stable == 0:
        return math.copysign(math.inf, result) if result else math.nan
    return result / stable


def enough(what: str, found: Sequence[object] | int, wanted: int) -> None:
    """Raises Lacking where there are fewer than wanted."""
    count = found if isinstance(found, int) else len(found)
    if count < wanted:
        told = (("found", float(count)), ("wanted", float(wanted)))
        raise Lacking(f"{count} of at least {wanted} {what}", figures=told)


def finite(what: str, values: Sequence[float]) -> Sequence[float]:
    """The values; raises Lacking where one is no number that can be compared."""
    if wrong := sum(not math.isfinite(one) for one in values):
        raise Lacking(f"{wrong} of {len(values)} {what} are NaN or infinite")
    return values


def positive(what: str, value: float) -> None:
    """Raises Lacking where a ratio to `value` would say nothing."""
    if not value > 0:
        raise Lacking(f"a ratio says nothing: {what} of stable is {value:g}, not above 0")

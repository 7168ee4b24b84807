"""Evidence: what gates are shown of a candidate and of the stable version; and which observations count."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from graftwork.access.clock import timestamp
from graftwork.traffic.observation import Observation

if TYPE_CHECKING:
    from graftwork.protocol.evaluation_parts import Distributions
    from graftwork.protocol.evaluations import EvaluationBody


class Lacking(Exception):
    """The evidence does not allow a judgement; the message says why, and `figures` by how much, where that is known."""

    def __init__(self, why: str, *, figures: tuple[tuple[str, float], ...] = ()) -> None:
        super().__init__(why)
        self.figures = figures


@dataclass(frozen=True)
class Arm:
    """What is known of one version."""

    observations: Sequence[Observation] = ()
    #: In the order in which they were added, without those that others supersede.
    evaluations: Sequence[EvaluationBody] = ()
    #: Counts over the answers of the window, where somebody counts; else they are made of the observations.
    distributions: Distributions | None = None


@dataclass(frozen=True)
class Evidence:
    """What a gate judges."""

    candidate: Arm
    stable: Arm = Arm()
    #: What the version, or the one before it, was asked and answered when it was good.
    baseline: Distributions | None = None


def in_window(
    observations: Iterable[Observation],
    *,
    arm: str,
    digest: str | None,
    since: datetime,
    now: datetime,
    settle_s: float,
) -> tuple[Observation, ...]:
    """The observations of an arm that count, in the order in which the requests came.

    Those of the version that the arm has now, which came since the step began; however late their record arrived.
    What came less than `settle_s` ago does not count yet: of those requests only the fast ones, and those that failed
    at once, would be known.
    """
    first, last = timestamp(since), timestamp(now - timedelta(seconds=settle_s))
    found = (one for one in observations if one.arm == arm and one.digest == digest and first <= one.at <= last)
    return tuple(sorted(found, key=lambda one: one.at))

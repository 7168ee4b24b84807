"""The gate of evaluations: a number that was measured of the version before, and how sure it is; pure.

A stored evaluation is looked at once, so that the usual interval of a mean is enough: value ± z stderr, and of the
difference of two that do not share examples the root of both squares. A number without a standard error is taken as
it is.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from graftwork.protocol.condition import Subject
from graftwork.traffic.gates.confidence.interval import Interval
from graftwork.traffic.gates.estimate import Estimate, Measured, compared, enough, positive
from graftwork.traffic.gates.evidence import Arm, Evidence, Lacking

if TYPE_CHECKING:
    from graftwork.protocol.analysis import EvaluationPart
    from graftwork.protocol.evaluation_parts import Metric
    from graftwork.protocol.evaluations import EvaluationBody


def evaluation(part: EvaluationPart, wanted: int | None, subject: Subject, evidence: Evidence) -> Measured:
    """A number of the last evaluation that has it; against stable only where both were measured on the same."""
    mine, one = _last(part, evidence.candidate, "the candidate")
    _enough(wanted, one, "the candidate")
    if subject == "result":
        return lambda alpha: _estimate(subject, one, None, alpha)
    others, other = _last(part, evidence.stable, "stable")
    _enough(wanted, other, "stable")
    if mine.measured_on() != others.measured_on():
        raise Lacking(f"{part.name} of the candidate and of stable were not measured on the same")
    if one.unit != other.unit:
        raise Lacking(f"{part.metric} is in {one.unit} of the candidate, and in {other.unit} of stable")
    if subject == "result / stable":
        positive(part.metric, other.value)
    return lambda alpha: _estimate(subject, one, other, alpha)


def _last(part: EvaluationPart, arm: Arm, whose: str) -> tuple[EvaluationBody, Metric]:
    for body in reversed(arm.evaluations):
        if (body.family, body.name, body.split, body.source) != (part.family, part.name, part.split, part.source):
            continue
        for found in body.measures():
            if found.name == part.metric:
                return body, found
    split = f" on {part.split}" if part.split else ""
    raise Lacking(f"no {part.source} evaluation {part.name}{split} of {whose} has {part.metric}")


def _enough(wanted: int | None, found: Metric, whose: str) -> None:
    if wanted is not None:
        enough(f"examples in the evaluation of {whose}", found.n or 0, wanted)


def _estimate(subject: Subject, one: Metric, other: Metric | None, alpha: float) -> Estimate:
    from scipy.stats import norm

    stable = None if other is None else other.value
    value = compared(subject, one.value, stable or 0.0)
    errors = (one.stderr, None if other is None else other.stderr)
    known = [error for error in errors if error is not None]
    error = math.hypot(*(known or [0.0]))
    if subject == "result / stable" and other is not None:  # to first order, as the delta method has it
        error = math.hypot(one.stderr or 0.0, value * (other.stderr or 0.0)) / other.value
    radius = float(norm.isf(alpha / 2)) * error
    return Estimate(
        value=value,
        bounds=Interval(value - radius, value + radius),
        method="normal interval of a stored number" if known else "a stored number, without a standard error",
        n=one.n,
        result=one.value,
        stable=stable,
        n_stable=None if other is None else other.n,
    )

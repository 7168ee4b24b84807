"""Gates over what arms answered: rates, amounts and feedback; the table of what can be measured of an answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from graftwork.protocol.condition import Subject
from graftwork.traffic.gates.confidence import means, quantiles, rates
from graftwork.traffic.gates.confidence.interval import Interval
from graftwork.traffic.gates.estimate import Estimate, Measured, compared, enough, finite, positive
from graftwork.traffic.gates.evidence import Arm, Evidence, Lacking
from graftwork.traffic.observation import Observation

if TYPE_CHECKING:
    from graftwork.protocol.analysis import AmountPart, FeedbackPart, RatePart

#: Answers of each arm, where a metric does not say how many.
MIN_SAMPLES = 50


@dataclass(frozen=True)
class Measure:
    """What is read off one answer; None where it does not count."""

    of: str  #: which answers count, for people
    read: Callable[[Observation], float | bool | None]


def _of_good(read: Callable[[Observation], float | bool | None]) -> Callable[[Observation], float | bool | None]:
    return lambda one: read(one) if one.outcome == "ok" else None


#: What clients broke off is neither a success nor a failure.
RATES: Final[Mapping[str, Measure]] = {
    "success_rate": Measure("answers", lambda one: None if one.outcome == "aborted" else one.outcome == "ok"),
    "empty_rate": Measure("whole answers", _of_good(lambda one: one.empty)),
    "truncated_rate": Measure("whole answers", _of_good(lambda one: one.truncated)),
    "repetitive_rate": Measure("whole answers", _of_good(lambda one: one.repetitive)),
    "refusal_rate": Measure("whole answers", _of_good(lambda one: one.refusal)),
    "format_valid_rate": Measure("whole answers of a given form", _of_good(lambda one: one.format_valid)),
}
AMOUNTS: Final[Mapping[str, Measure]] = {
    "latency_s": Measure("whole answers", _of_good(lambda one: one.latency_s)),
    "ttft_s": Measure("whole answers with a first token", _of_good(lambda one: one.ttft_s)),
    "output_tokens_per_s": Measure(
        "whole answers that took time",
        _of_good(lambda one: one.output_tokens / one.latency_s if one.latency_s else None),
    ),
    "prompt_tokens": Measure("answers", lambda one: one.prompt_tokens),
    "output_tokens": Measure("whole answers", _of_good(lambda one: one.output_tokens)),
    "mean_logprob": Measure("whole answers with log-probabilities", _of_good(lambda one: one.mean_logprob)),
}
QUANTILES: Final[Mapping[str, float]] = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}


def rate(part: RatePart, wanted: int | None, subject: Subject, evidence: Evidence) -> Measured:
    """A share of the answers; raises Lacking as all gates do."""
    values = _both(RATES[part.measure], wanted or MIN_SAMPLES, subject, evidence)
    one, other = (rates.Count(sum(found), len(found)) for found in values)
    against = {"result - stable": rates.rate_difference, "result / stable": rates.rate_ratio}

    def bounds(alpha: float) -> Interval:
        if subject != "result":
            return against[subject](one, other, alpha)
        low, high = rates.rate(one.k, one.n, alpha)
        return Interval(float(low), float(high))

    return _measured("beta-binomial confidence sequence", subject, values, (one.rate, other.rate), bounds)


def amount(part: AmountPart, wanted: int | None, subject: Subject, evidence: Evidence) -> Measured:
    """A mean or a percentile of a number that each answer has."""
    least = means.LEAST if part.statistic == "mean" else 1
    values = _both(AMOUNTS[part.measure], max(wanted or MIN_SAMPLES, least), subject, evidence)
    if part.statistic == "mean":
        return _mean(subject, values)
    return _quantile(subject, values, QUANTILES[part.statistic], part.measure)


def feedback(part: FeedbackPart, wanted: int | None, subject: Subject, evidence: Evidence) -> Measured:
    """The mean of what people or other systems said of answers, between stated bounds."""
    measure = Measure(f"answers with {part.name}", lambda one: one.feedback.get(part.name))
    values = _both(measure, wanted or MIN_SAMPLES, subject, evidence)
    for value in (*values[0], *values[1]):
        if not part.low <= value <= part.high:
            raise Lacking(f"a {part.name} is {value:g}, which is not from {part.low:g} to {part.high:g}")
    width = part.high - part.low
    centers = _center(values[0]), _center(values[1])
    if subject == "result / stable":
        positive(f"the mean {part.name}", centers[1])
        if part.low < 0:
            raise Lacking(f"a ratio says nothing: {part.name} may be below 0")
    one, other = (rates.Count(sum((value - part.low) / width for value in found), len(found)) for found in values)

    def bounds(alpha: float) -> Interval:
        if subject == "result":
            return Interval(*(part.low + width * float(bound) for bound in rates.rate(one.k, one.n, alpha)))
        if subject == "result - stable":
            return Interval(*(width * bound for bound in rates.rate_difference(one, other, alpha)))
        return rates.rate_ratio(one, other, alpha, part.low / width)

    return _measured("beta-binomial confidence sequence", subject, values, centers, bounds)


def _mean(subject: Subject, values: _Values) -> Measured:
    one, other = (means.Moments.of(found) for found in values)
    if subject == "result / stable":
        positive("the mean", other.mean)
    against = {"result - stable": means.mean_difference, "result / stable": means.mean_ratio}

    def bounds(alpha: float) -> Interval:
        return means.mean(one, alpha) if subject == "result" else against[subject](one, other, alpha)

    return _measured("asymptotic confidence sequence", subject, values, (one.mean, other.mean), bounds)


def _quantile(subject: Subject, values: _Values, p: float, name: str) -> Measured:
    import numpy as np

    one, other = (float(np.quantile(found, p, method="inverted_cdf")) if found else 0.0 for found in values)
    if subject == "result / stable":
        positive(name, other)

    def bounds(alpha: float) -> Interval:
        if subject == "result":
            return quantiles.quantile(values[0], p, alpha)
        mine, others = (quantiles.quantile(found, p, alpha / 2) for found in values)
        return mine.minus(others) if subject == "result - stable" else mine.over(others)

    return _measured("confidence sequence of a quantile", subject, values, (one, other), bounds)


_Values = tuple[Sequence[float], Sequence[float]]


def _both(measure: Measure, wanted: int, subject: Subject, evidence: Evidence) -> _Values:
    """The values of candidate and stable; of stable only where they are compared."""
    mine = _values(measure, evidence.candidate, "of the candidate", wanted)
    return mine, ([] if subject == "result" else _values(measure, evidence.stable, "of stable", wanted))


def _values(measure: Measure, arm: Arm, whose: str, wanted: int) -> Sequence[float]:
    found = [float(value) for value in map(measure.read, arm.observations) if value is not None]
    enough(f"{measure.of} {whose}", found, wanted)
    return finite(f"values {whose}", found)


def _center(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _measured(
    method: str, subject: Subject, values: _Values, centers: tuple[float, float], bounds: Callable[[float], Interval]
) -> Measured:
    alone = subject == "result"
    return lambda alpha: Estimate(
        value=compared(subject, *centers),
        bounds=bounds(alpha),
        method=method,
        n=len(values[0]),
        result=centers[0],
        stable=None if alone else centers[1],
        n_stable=None if alone else len(values[1]),
    )

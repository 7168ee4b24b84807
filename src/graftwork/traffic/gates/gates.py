"""judge: whether evidence proves what the metrics of a template must come to; by GATES, which measure it.

A metric with a successCondition passes when its bounds prove it, and fails when they prove the contrary, or the
failureCondition where there is one. With a failureCondition alone it fails when that is proven, and passes otherwise,
as soon as there are enough samples. All bounds hold at every look at once, so that looking often changes nothing of
`alpha`: it bounds the chance that an analysis fails though every metric meets its condition (each of m metrics fails
at alpha / m, by Bonferroni), and of each metric the chance that it passes though it does not meet it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, cast

from graftwork.protocol.condition import Condition
from graftwork.traffic.gates.evidence import Evidence, Lacking
from graftwork.traffic.verdict import Result, Verdict

if TYPE_CHECKING:
    from graftwork.protocol.analysis import AnalysisSpec, MetricPart
    from graftwork.protocol.condition import Subject
    from graftwork.traffic.gates.estimate import Estimate, Measured

    #: Measures what conditions compare, given the part of the metric that says what to measure, and how many samples
    #: there must be; raises Lacking where the evidence is not enough.
    Gate = Callable[[Any, int | None, Subject, Evidence], Measured]

#: A metric's provider to the import path of its gate.
GATES: Final[Mapping[str, str]] = {
    "rate": "graftwork.traffic.gates.live:rate",
    "amount": "graftwork.traffic.gates.live:amount",
    "feedback": "graftwork.traffic.gates.live:feedback",
    "evaluation": "graftwork.traffic.gates.evaluation:evaluation",
    "drift": "graftwork.traffic.gates.drift:drift",
}


@dataclass(frozen=True)
class Judgement:
    """What the evidence comes to: of all metrics, and of each."""

    whole: Verdict
    metrics: tuple[Verdict, ...]


def judge(spec: AnalysisSpec, evidence: Evidence) -> Judgement:
    """One look at all metrics; never raises for what the evidence holds."""
    found = tuple(judge_metric(metric, evidence, spec.alpha, tests=len(spec.metrics)) for metric in spec.metrics)
    return Judgement(summed(found), found)


def summed(found: Sequence[Verdict]) -> Verdict:
    """What the verdicts on all metrics come to."""
    counts = Counter(one.result for one in found)
    result: Result = "fail" if counts["fail"] else "inconclusive" if counts["inconclusive"] else "pass"
    told = [f"{counts[one]} of {len(found)} metrics {one}" for one in ("fail", "inconclusive") if counts[one]]
    reasons = [f"{one.metric}: {one.reason}" for one in found if one.result == result != "pass"]
    reason = ". ".join([", ".join(told), *reasons]) if told else f"All {len(found)} metrics pass"
    return Verdict(result, f"{reason}.", parts=tuple(found))


def judge_metric(metric: MetricPart, evidence: Evidence, alpha: float, *, tests: int = 1) -> Verdict:
    """One look at one metric, of `tests` that any one can fail."""
    subject = (metric.success or cast("Condition", metric.failure)).subject
    try:
        kind = metric.provider.kind
        measured = _gate(kind)(getattr(metric.provider, kind), metric.min_samples, subject, evidence)
        passing = measured(alpha)
        failing = measured(alpha / tests) if tests > 1 else passing
        if any(math.isnan(bound) for bound in (*passing.bounds, *failing.bounds)):
            raise Lacking("the numbers are too large to be compared")
    except Lacking as lack:
        return Verdict("inconclusive", f"{lack}", metric.name, lack.figures)
    return _verdict(metric, passing, failing, alpha, alpha / tests)


def _gate(kind: str) -> Gate:
    module, _, name = GATES[kind].partition(":")
    return cast("Gate", getattr(import_module(module), name))


def _verdict(metric: MetricPart, passing: Estimate, failing: Estimate, alpha: float, share: float) -> Verdict:
    success, failure = metric.success, metric.failure
    refuted = failure if failure is not None else cast("Condition", success).contrary
    if refuted.holds_between(*failing.bounds):
        return _told("fail", metric, refuted, failing, share, "is proven")
    if success is not None:
        if success.holds_between(*passing.bounds):
            return _told("pass", metric, success, passing, alpha, "is proven")
        return _told("inconclusive", metric, success, passing, alpha, "is neither proven nor disproved yet")
    return _told("pass", metric, refuted, failing, share, "is not proven")


def _told(
    result: Result, metric: MetricPart, condition: Condition, found: Estimate, alpha: float, says: str
) -> Verdict:
    against = "" if found.stable is None else f" (result {found.result:.4g}, stable {found.stable:.4g})"
    value = "undefined" if math.isnan(found.value) else f"{found.value:.4g}"
    counted = " against ".join(str(count) for count in (found.n, found.n_stable) if count is not None)
    reason = (
        f"{condition} {says}: {condition.subject} is {value}{against}, within "
        f"[{found.bounds.low:.4g}, {found.bounds.high:.4g}] at alpha {alpha:.3g} by {found.method}"
    )
    figures = {
        "value": found.value,
        "low": found.bounds.low,
        "high": found.bounds.high,
        "result": found.result,
        "stable": found.stable,
        "n": found.n,
        "n_stable": found.n_stable,
        "bound": condition.bound,
        "alpha": alpha,
    }
    finite = tuple((name, float(one)) for name, one in figures.items() if one is not None and math.isfinite(one))
    return Verdict(result, f"{reason} (n={counted})" if counted else reason, metric.name, finite)

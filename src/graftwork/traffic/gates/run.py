"""Run: the looks at a template's metrics so far, and what they come to; pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, cast

from graftwork.traffic.gates.evidence import Evidence
from graftwork.traffic.gates.gates import judge_metric, summed
from graftwork.traffic.gates.looks import next_look, phase_of
from graftwork.traffic.verdict import Result, Verdict

if TYPE_CHECKING:
    from graftwork.protocol.analysis import AnalysisSpec, MetricPart


@dataclass(frozen=True)
class Look:
    """What one look at a metric said."""

    at: datetime
    verdict: Verdict


@dataclass(frozen=True)
class Run:
    """An analysis of one arm from `began` on, gone on with from one time to the next.

    Who loses the looks begins to count anew, and loses nothing else: bounds are of the evidence.
    """

    spec: AnalysisSpec
    began: datetime
    looks: Mapping[str, tuple[Look, ...]] = field(default_factory=dict)

    def due(self, now: datetime) -> tuple[MetricPart, ...]:
        """The metrics to be looked at now: those that are not decided yet, and whose time has come."""
        return tuple(one for one in self.spec.metrics if self._phase(one) == "running" and self._next(one) <= now)

    def look(self, now: datetime, evidence: Callable[[], Evidence]) -> Run:
        """With one more look at each metric that is due; `evidence` is asked for only where one is."""
        due = self.due(now)
        if not due:
            return self
        shown, tests = evidence(), len(self.spec.metrics)
        looks = dict(self.looks)
        for metric in due:
            found = Look(now, judge_metric(metric, shown, self.spec.alpha, tests=tests))
            looks[metric.name] = (*looks.get(metric.name, ()), found)
        return replace(self, looks=looks)

    @property
    def verdict(self) -> Verdict:
        """What all metrics come to by now; `inconclusive` also while some are to be looked at again."""
        return summed(tuple(map(self._standing, self.spec.metrics)))

    def _standing(self, metric: MetricPart) -> Verdict:
        """How a metric stands: decided, or as its last look left it where it is looked at as long as the step lasts."""
        looks = self.looks.get(metric.name, ())
        if not looks:
            return Verdict("inconclusive", "not looked at yet", metric.name)
        last, phase = looks[-1].verdict, self._phase(metric)
        if phase == "running" and not (metric.endless and last.result == "pass"):
            passed = sum(one.verdict.result == "pass" for one in looks)
            wanted = "" if metric.endless else f" of {metric.count or 1}"
            return replace(last, result="inconclusive", reason=f"passed {passed}{wanted} looks so far; {last.reason}")
        if phase == "running":
            return last
        deciding = next(one.verdict for one in reversed(looks) if one.verdict.result == phase)
        return replace(deciding, result=cast("Result", phase))

    def _phase(self, metric: MetricPart) -> str:
        return phase_of(metric, [one.verdict.result for one in self.looks.get(metric.name, ())])

    def _next(self, metric: MetricPart) -> datetime:
        looks = self.looks.get(metric.name, ())
        return next_look(metric, began=self.began, last=looks[-1].at if looks else None)

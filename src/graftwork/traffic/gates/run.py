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
class Looks:
    """How many looks at a metric said what, when the last one was, and the last verdict of each kind: as much of
    thousands of looks as of one.
    """

    at: datetime
    last: Verdict
    counts: Mapping[Result, int] = field(default_factory=dict)
    latest: Mapping[Result, Verdict] = field(default_factory=dict)

    @classmethod
    def with_one_more(cls, before: Looks | None, at: datetime, verdict: Verdict) -> Looks:
        counts, latest = (before.counts, before.latest) if before is not None else ({}, {})
        said = verdict.result
        return cls(at, verdict, {**counts, said: counts.get(said, 0) + 1}, {**latest, said: verdict})


@dataclass(frozen=True)
class Run:
    """An analysis of one arm from `began` on, gone on with from one time to the next.

    Who loses the looks begins to count anew, and loses nothing else: bounds are of the evidence.
    """

    spec: AnalysisSpec
    began: datetime
    looks: Mapping[str, Looks] = field(default_factory=dict)

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
            found = judge_metric(metric, shown, self.spec.alpha, tests=tests)
            looks[metric.name] = Looks.with_one_more(looks.get(metric.name), now, found)
        return replace(self, looks=looks)

    @property
    def verdict(self) -> Verdict:
        """What all metrics come to by now; `inconclusive` also while some are to be looked at again."""
        return summed(tuple(map(self._standing, self.spec.metrics)))

    def _standing(self, metric: MetricPart) -> Verdict:
        """How a metric stands: decided, or as its last look left it where it is looked at as long as the step lasts."""
        if (looks := self.looks.get(metric.name)) is None:
            return Verdict("inconclusive", "not looked at yet", metric.name)
        last, phase = replace(looks.last, looks=looks.counts), self._phase(metric)
        if phase == "running" and not (metric.endless and last.result == "pass"):
            wanted = "" if metric.endless else f" of {metric.count or 1}"
            passed = f"passed {looks.counts.get('pass', 0)}{wanted} looks so far; {last.reason}"
            return replace(last, result="inconclusive", reason=passed)
        if phase == "running":
            return last
        result = cast("Result", phase)
        return replace(looks.latest[result], result=result, looks=looks.counts)

    def _phase(self, metric: MetricPart) -> str:
        looks = self.looks.get(metric.name)
        return phase_of(metric, looks.counts if looks is not None else {})

    def _next(self, metric: MetricPart) -> datetime:
        looks = self.looks.get(metric.name)
        return next_look(metric, began=self.began, last=looks.at if looks is not None else None)

"""Looks: when a metric is looked at again, and what all its looks so far come to; pure.

Limits mean what Argo's analysis means by them, but for two things: only looks that pass count towards `count`, and that
nothing is known yet is no end unless `inconclusiveLimit` says so. There, `count` inconclusive looks are a success.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Literal

from graftwork.protocol.analysis import DEFAULT_INTERVAL_S, MetricPart
from graftwork.traffic.verdict import Result

#: `running`: look again.
Phase = Result | Literal["running"]


def phase_of(metric: MetricPart, looks: Mapping[Result, int]) -> Phase:
    """What the looks at one metric come to, by how many said what.

    It fails when more looks failed than `failureLimit`, is inconclusive when more were so than `inconclusiveLimit`, and
    passes when `count` looks passed; with an interval and no count it runs as long as whoever looks wants to.
    """
    if looks.get("fail", 0) > metric.failure_limit:
        return "fail"
    if metric.inconclusive_limit is not None and looks.get("inconclusive", 0) > metric.inconclusive_limit:
        return "inconclusive"
    return "pass" if not metric.endless and looks.get("pass", 0) >= (metric.count or 1) else "running"


def next_look(metric: MetricPart, *, began: datetime, last: datetime | None) -> datetime:
    """When to look: after `initialDelay`, then every `interval`."""
    if last is None:
        return began + timedelta(seconds=metric.initial_delay)
    return last + timedelta(seconds=metric.interval if metric.interval is not None else DEFAULT_INTERVAL_S)

"""TemplateJudge: judges the arms of rollouts by templates, as often as these say; a `Judge`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Final

from graftwork.errors import InvalidRequest, NotFound
from graftwork.traffic.gates.arguments import fill
from graftwork.traffic.gates.evidence import Evidence
from graftwork.traffic.gates.run import Run
from graftwork.traffic.gates.templates import Templates
from graftwork.traffic.judging.known import Known
from graftwork.traffic.rollouts.plan import Analysis, Pin
from graftwork.traffic.rollouts.rollout import Rollout
from graftwork.traffic.verdict import Verdict

if TYPE_CHECKING:
    from graftwork.protocol.analysis import AnalysisSpec

#: The shortest time between two looks at an arm, in seconds, whatever its template says.
LEAST_S: Final = 1.0
#: Of the time, what part looks may take: one that took long is followed by a longer pause.
SHARE: Final = 0.05

#: Rollout, arm, by what, and from when on.
_Key = tuple[str, str, Analysis, datetime]


@dataclass(frozen=True)
class _Going:
    """A run, and when there may be another look."""

    run: Run
    rested: datetime


class TemplateJudge:
    """For use from any thread. What it keeps are the looks so far: without them it begins them anew."""

    def __init__(self, templates: Templates, known: Known, timer: Callable[[], float] = perf_counter) -> None:
        self._templates, self._known, self._timer = templates, known, timer
        self._going: dict[_Key, _Going] = {}
        self._lock = threading.Lock()

    def pin(self, tenant: str, analysis: Analysis) -> Pin:
        """As `Judge` says."""
        try:
            found = self._templates.show(tenant, analysis.name, analysis.revision)
        except NotFound as error:
            field = "name" if analysis.revision is None else "revision"
            raise InvalidRequest(error.message, field=field) from error
        return Pin(found.revision.number, fill(analysis.name, found.spec, analysis.args).args)

    def judge(self, rollout: Rollout, arm: str, analysis: Analysis, since: datetime, now: datetime) -> Verdict:
        """As `Judge` says."""
        key = (rollout.full_name, arm, analysis, since)
        with self._lock:
            going = self._going.get(key)
        if going is None:
            try:
                template = self._templates.show(rollout.tenant, analysis.name, analysis.revision)
                filled = fill(analysis.name, template.spec, analysis.args)
            except (NotFound, InvalidRequest) as error:  # its tenant's revisions stay, so that it never was as it is
                return Verdict("inconclusive", error.message)
            going = _Going(Run(filled.spec, since), since)
        if now >= going.rested:
            going = self._looked(going, rollout, arm, now)
            with self._lock:
                self._going[key] = going
        return going.run.verdict

    def keep(self, live: Collection[str]) -> None:
        """As `Judge` says."""
        with self._lock:
            if self._going:
                self._going = {key: going for key, going in self._going.items() if key[0] in live}

    def _looked(self, going: _Going, rollout: Rollout, arm: str, now: datetime) -> _Going:
        began, run = self._timer(), going.run
        after = run.look(now, partial(self._shown, run.spec, rollout, arm, going.run.began, now))
        if after is run:
            return going
        took_s = self._timer() - began
        return replace(going, run=after, rested=now + timedelta(seconds=max(LEAST_S, took_s / SHARE)))

    def _shown(self, spec: AnalysisSpec, rollout: Rollout, arm: str, since: datetime, now: datetime) -> Evidence:
        answers = any(metric.provider.kind != "evaluation" for metric in spec.metrics)
        return self._known.evidence(rollout, arm, since=since, now=now, settle_s=spec.settle, answers=answers)

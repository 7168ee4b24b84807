"""Controller: looks at every rollout that is live, and does what its plan says; on one server of all."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from typing import Any

from graftwork.access.clock import Clock
from graftwork.db.lease import Held, Lease
from graftwork.errors import GraftworkError, NotFound
from graftwork.registry.reference import parse_reference
from graftwork.registry.snapshot import Snapshot
from graftwork.registry.versions import Version
from graftwork.traffic.rollouts.advance import Evidence
from graftwork.traffic.rollouts.live import LiveRollouts
from graftwork.traffic.rollouts.plan import Analysis
from graftwork.traffic.rollouts.pointer import leads_to
from graftwork.traffic.rollouts.ports import Judge, Readiness
from graftwork.traffic.rollouts.rollout import Rollout
from graftwork.traffic.rollouts.rollouts import Rollouts
from graftwork.traffic.verdict import Verdict

log = logging.getLogger(__name__)

#: How the arms of a rollout stand, and what it waits for.
_Told = tuple[list[dict[str, Any]], str | None]


class Controller:
    """One of them runs in each server; all decide alike, and the lease says whose decisions are written.

    It keeps nothing of what it decided: whoever takes over goes on from what the database says. Only looks at arms are
    begun anew, which changes nothing of what they come to: bounds are of the evidence.
    """

    def __init__(
        self,
        rollouts: Rollouts,
        lease: Lease,
        snapshot: Callable[[], Snapshot],
        readiness: Readiness,
        clock: Clock,
        judge: Judge | None = None,
    ) -> None:
        self._rollouts, self._lease, self._snapshot = rollouts, lease, snapshot
        self._readiness, self._clock, self._judge = readiness, clock, judge
        self._held: Held | None = None
        self._told: dict[str, _Told] = {}

    def look(self) -> int:
        """How many rollouts were moved on; where none is live, the database is not asked for anything."""
        live = self._snapshot().part(LiveRollouts).by_route
        self._keep({one.full_name for one in live.values()})
        moved = 0
        for one in live.values():
            if (held := self._lease.hold()) is None:  # for each, since judging all may last longer than it does
                break
            self._held = held
            try:
                moved += self._go_on(one, held, self._clock())
            except GraftworkError as error:  # the others go on
                log.warning("The rollout %s could not go on: %s", one.name, error.message)
            except Exception:
                log.exception("The rollout %s could not go on; it is tried again.", one.name)
        return moved

    def close(self) -> None:
        """Let another server go on at once, if this one was it."""
        if self._held is not None:
            self._lease.release()

    def evidence(self, one: Rollout, now: datetime) -> Evidence:
        """What is known of a rollout now."""
        return Evidence(
            ready=one.state.status == "warming" and self._readiness.ready(one),
            broken=self._broken(one),
            moved=self._moved(one),
            background=self._judged(one, one.plan.background, now),
            step=one.state.step,
            verdicts=self._judged(one, self._due(one), now),
        )

    def _go_on(self, one: Rollout, held: Held, now: datetime) -> bool:
        evidence = self.evidence(one, now)
        self._tell(one, evidence, held, now)
        after = self._rollouts.advance(one, evidence, held, now)
        return after is not None and after.changes != one.changes

    def _tell(self, one: Rollout, evidence: Evidence, held: Held, now: datetime) -> None:
        """Write down how its arms stand and what it waits for, where that is something new."""
        beside, within = evidence.beside(one.plan, one.state), evidence.within(one.plan, one.state)
        told = beside.to_json() if beside is not None else []
        if within is not None and within.analysis is not one.plan.background:
            told += within.to_json()
        cold = one.state.status == "warming" and not evidence.ready
        known = self._told.get(one.full_name, ([], None))
        seen = (told or known[0], self._readiness.waits_for(one) if cold else None)
        if seen != known:
            self._rollouts.tell(one, *seen, held, now)
            self._told[one.full_name] = seen

    def _keep(self, live: Collection[str]) -> None:
        self._told = {name: told for name, told in self._told.items() if name in live}
        if self._judge is not None:
            self._judge.keep(live)

    def _due(self, one: Rollout) -> Analysis | None:
        """The analysis that the step which lasts now is, if it is one."""
        if one.state.status != "progressing" or one.state.step == len(one.plan.steps):
            return None
        step = one.plan.steps[one.state.step]
        return step if isinstance(step, Analysis) else None

    def _judged(self, one: Rollout, analysis: Analysis | None, now: datetime) -> Mapping[str, Verdict]:
        if analysis is None or self._judge is None or one.state.started_at is None:
            return {}
        since = one.state.started_at if analysis is one.plan.background else one.state.entered_at
        return {arm: self._judge.judge(one, arm, analysis, since, now) for arm in one.plan.arms}

    def _broken(self, one: Rollout) -> str | None:
        for arm in one.live_arms[:-1]:
            version = _meant(self._snapshot(), one, arm.reference)
            if version is None:
                return f"The version of the arm {arm.name} is not there any more."
            if version.stage == "archived":
                return f"{version.label} was archived."
            if version.forbidden:
                return f"The policy forbids to serve {version.label}: {'; '.join(version.forbidden)}."
        return self._readiness.problem(one) if one.state.status == "warming" else None

    def _moved(self, one: Rollout) -> str | None:
        stable = one.live_arms[-1]
        if not leads_to(self._snapshot(), one.tenant, one.route, stable.reference):
            return f"{one.route} no longer leads to {stable.reference}."
        if (now := _meant(self._snapshot(), one, stable.reference)) is not None and now.digest == stable.digest:
            return None
        return f"{stable.reference} was made to mean {now.label if now else 'nothing'} meanwhile."


def _meant(snapshot: Snapshot, one: Rollout, reference: str) -> Version | None:
    try:
        return snapshot.resolve(one.tenant, parse_reference(reference))
    except NotFound:
        return None

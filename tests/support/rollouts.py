"""Rollout documents, verdicts as a script says them, and a clock that a test sets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from graftwork.access.events import read_events
from graftwork.db.lease import Lease
from graftwork.errors import InvalidRequest
from graftwork.protocol.rollouts import RolloutSpec
from graftwork.registry.snapshot import ReadPart, Snapshot, SnapshotReader, read_snapshot
from graftwork.traffic.choice import choose
from graftwork.traffic.decision import Asked, Decision
from graftwork.traffic.promotions.promotions import LivePromotions, read_promotions
from graftwork.traffic.rollouts.controller import Controller
from graftwork.traffic.rollouts.live import LiveRollouts, read_live
from graftwork.traffic.rollouts.plan import Analysis, Pin
from graftwork.traffic.rollouts.ports import Judge
from graftwork.traffic.rollouts.rollout import Rollout
from graftwork.traffic.rollouts.rollouts import Rollouts
from graftwork.traffic.routes.circumstances import Circumstances
from graftwork.traffic.routes.table import RouteTable, read_routes
from graftwork.traffic.verdict import Result, Verdict
from support.desk import Desk

PARTS: dict[type, ReadPart] = {
    LiveRollouts: read_live,
    RouteTable: read_routes,
    LivePromotions: read_promotions,
}


def document(route: str, strategy: Mapping[str, Any], *candidates: str | tuple[str, str]) -> dict[str, Any]:
    """A Rollout document; a candidate is a reference, or an arm's name and a reference."""
    named = [("candidate", one) if isinstance(one, str) else one for one in candidates or (f"{route}:2.0.0",)]
    spec = {"route": route, "candidates": [{"arm": arm, "reference": one} for arm, one in named]}
    return {
        "apiVersion": "adapters.graftwork.dev/v1alpha1",
        "kind": "Rollout",
        "spec": {**spec, "strategy": dict(strategy)},
    }


def canary(*steps: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {"canary": {"steps": list(steps), **more}}


def weight(percent: float) -> dict[str, Any]:
    return {"setWeight": percent}


def hold(duration: str | None = None) -> dict[str, Any]:
    return {"pause": {} if duration is None else {"duration": duration}}


def spec(route: str, strategy: Mapping[str, Any], *candidates: str | tuple[str, str]) -> RolloutSpec:
    return RolloutSpec.model_validate(document(route, strategy, *candidates)["spec"])


@dataclass
class SetClock:
    """Stands still until it is moved."""

    now: datetime = datetime(2026, 1, 31, 9, 30, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def pass_by(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


@dataclass
class ScriptedJudge:
    """A `Judge` that says of each arm what it was told to, of those that it was told nothing of nothing for certain."""

    says: dict[str, Result] = field(default_factory=dict)
    asked: list[tuple[str, str, datetime]] = field(default_factory=list)

    def pin(self, tenant: str, analysis: Analysis) -> Pin:
        if analysis.name == "unknown":
            raise InvalidRequest("There is no template unknown.", field="name")
        return Pin(analysis.revision or 1, analysis.args)

    def keep(self, live: Collection[str]) -> None:
        """It knows nothing of any."""

    def judge(self, rollout: Rollout, arm: str, analysis: Analysis, since: datetime, now: datetime) -> Verdict:
        self.asked.append((arm, analysis.name, since))
        return Verdict(self.says.get(arm, "inconclusive"), f"{arm} as told", metric=analysis.name)


@dataclass
class AllWarm:
    """A `Readiness` without an engine."""

    warm: bool = True
    wrong: str | None = None
    lacks: str | None = None

    def ready(self, rollout: Rollout) -> bool:
        return self.warm

    def problem(self, rollout: Rollout) -> str | None:
        return self.wrong

    def waits_for(self, rollout: Rollout) -> str | None:
        return self.lacks


class Bench:
    """Rollouts of one database, judged by a script, and a server's controller that is looked at when a test says so."""

    def __init__(self, desk: Desk, judge: Judge | None = None) -> None:
        self.desk, self.clock, self.judge, self.warmth = desk, SetClock(), ScriptedJudge(), AllWarm()
        self.judged_by = judge or self.judge
        self.rollouts = Rollouts(desk.database, self.clock, judge=self.judged_by)
        self.reader = SnapshotReader(desk.database, PARTS)
        self.controller = self.controller_of("one")

    def controller_of(self, holder: str, ttl_s: float = 60.0) -> Controller:
        """Another server's on the same database."""
        lease = Lease(self.desk.database, "rollouts", holder, ttl_s)
        return Controller(self.rollouts, lease, self.snapshot, self.warmth, self.clock, self.judged_by)

    def snapshot(self) -> Snapshot:
        """What is there now, whoever wrote it."""
        return read_snapshot(self.desk.database, parts=PARTS)

    def start(self, strategy: Mapping[str, Any], *candidates: str | tuple[str, str], **told: Any) -> Rollout:
        said = {"actor": "ann", "reason": None, "once": None, **told}
        return self.rollouts.start("local", spec("support", strategy, *candidates), **said)

    def look(self, seconds: float = 0.0) -> Rollout:
        """How the rollout stands after so many seconds, when the controller has looked."""
        self.clock.pass_by(seconds)
        self.controller.look()
        return self.rollouts.get("local", "support")

    def kinds(self) -> list[str]:
        """Of the events about rollouts, in order."""
        with self.desk.database.reading() as tx:
            return [event.kind for event in read_events(tx, "local", "rollouts/support")]

    def decide(self, user: str, snapshot: Snapshot | None = None, model: str = "support") -> Decision:
        found = snapshot or self.snapshot()
        return choose(
            Asked(model, seen=Circumstances(user=user)),
            tenant="local",
            base="tiny",
            versions=found,
            routes=found.part(RouteTable),
            rollouts=found.part(LiveRollouts),
        )

    def arms(self, users: int = 200, model: str = "support") -> Counter[str]:
        """How many of so many users each version answers."""
        found = self.snapshot()
        return Counter(self.decide(f"user-{number}", found, model).model for number in range(users))

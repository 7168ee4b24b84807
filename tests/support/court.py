"""Court: rollouts that are judged by real templates, and answers that are written as though requests had come."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import Any

from graftwork.access.clock import timestamp
from graftwork.artifacts.stores import open_store
from graftwork.db.lease import Lease
from graftwork.protocol.analysis_template import TemplateSpec
from graftwork.protocol.evaluations import AnyEvaluation
from graftwork.registry.evaluations.evaluations import Evaluations
from graftwork.traffic.gates.templates import Templates
from graftwork.traffic.judging.known import Known
from graftwork.traffic.judging.template_judge import TemplateJudge
from graftwork.traffic.promotions.conditions import Conditions
from graftwork.traffic.promotions.promoter import Promoter
from graftwork.traffic.promotions.promotions import Promotions
from graftwork.traffic.records.feedback import Feedback
from graftwork.traffic.records.record import Record
from graftwork.traffic.records.vault import Vault
from graftwork.traffic.rollouts.rollout import Rollout
from graftwork.traffic.shadows.diffs import Diffs
from support.analysis import template
from support.books import Books
from support.copies import copied
from support.desk import Desk
from support.rollouts import Bench


class Court:
    """What a test works with: `bench` looks when it is told to."""

    def __init__(self, desk: Desk) -> None:
        self.desk, self.templates = desk, Templates(desk.database, desk.clock)
        self.books = Books(desk.database, Vault(None))
        self.diffs = Diffs(desk.database, self.books.vault)
        self.took_s = 0.0  #: of each reading of the timer
        self.judge = self.judge_of()
        self.bench = Bench(desk, self.judge)
        self._ids = count(1)
        self._passed_s = 0.0
        self.promotions = Promotions(desk.database, desk.clock)
        self.evaluations = Evaluations(desk.database, open_store("memory:///"))

    def judge_of(self, most: int = 20_000) -> TemplateJudge:
        """A judge that knows nothing yet."""
        known = Known(self.desk.database, self.books.records, self.diffs, most=most)
        return TemplateJudge(self.templates, known, self._timer)

    def promoter_of(self, holder: str, ttl_s: float = 60.0) -> Promoter:
        """A server's, on the lease of that server's controller."""
        rollouts, lease = self.bench.rollouts, Lease(self.desk.database, "rollouts", holder, ttl_s)
        conditions = Conditions(rollouts, self.templates)
        return Promoter(
            self.desk.database, rollouts, conditions, lease, self.bench.snapshot, self.bench.clock, self._timer
        )

    def measure(self, reference: str, accuracy: float) -> None:
        """An evaluation of a version."""
        told = {"family": "task", "name": "sst2", "dataset": {"id": "sst2"}}
        body = AnyEvaluation.model_validate({**told, "metrics": [{"name": "accuracy", "value": accuracy}]}).root
        self.evaluations.add("local", reference, body, actor="me")

    def set(self, name: str, *metrics: dict[str, Any], **fields: Any) -> None:
        """Make this what a template says."""
        spec = TemplateSpec.model_validate(template(*metrics, **fields)["spec"])
        self.templates.set("local", name, spec, actor="me")

    def answers(
        self, arm: str, number: int, *, of: Rollout | None = None, score: float | None = None, **more: Any
    ) -> None:
        """So many answers of an arm of a rollout (of the newest one), which came now."""
        rollout = of or self.bench.rollouts.get("local", "support")
        version, at = rollout.arms[arm], timestamp(self.bench.clock.now)
        told: dict[str, Any] = {"outcome": "ok", "latency_s": 0.5, "status": 200, "prompt_tokens": 9}
        told |= {"format_valid": True}
        told |= {"tenant": "local", "position": 0, "door": "/v1/chat/completions", "principal": "me", "at": at}
        told |= {"route": rollout.route, "rollout": rollout.name, "arm": arm, "digest": version.digest} | more
        records = [Record(request_id=f"r{next(self._ids)}", **told) for _ in range(number)]
        self.books.write(*records)
        if score is not None:
            for one in records:
                self.books.feedback.give("local", Feedback(one.request_id, "rating", "user", score, None), actor="me")

    def copies(self, number: int, *, shadow: str | None = "yes", error: str | None = None) -> None:
        """So many copies of requests to the candidate of the newest rollout, which came now and were answered `yes`."""
        rollout, at = self.bench.rollouts.get("local", "support"), timestamp(self.bench.clock.now)
        made = [copied(next(self._ids), shadow=shadow, error=error, at=at, rollout=rollout.name) for _ in range(number)]
        digest = rollout.arms["candidate"].digest
        self.diffs.write([replace(one, shadow=replace(one.shadow, digest=digest)) for one in made])

    def _timer(self) -> float:
        self._passed_s += self.took_s
        return self._passed_s

"""Known: what the database knows of a rollout's arms: what this rollout had them answer, evaluations, a baseline."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from graftwork.access.clock import timestamp
from graftwork.db import Database, Transaction
from graftwork.errors import NotFound
from graftwork.registry.evaluations import rows as evaluations
from graftwork.registry.resolving import resolve
from graftwork.traffic.gates.evidence import Arm, Evidence, in_window
from graftwork.traffic.observation import Observation
from graftwork.traffic.records.records import Records
from graftwork.traffic.rollouts.plan import STABLE
from graftwork.traffic.rollouts.rollout import ArmVersion, Rollout
from graftwork.traffic.shadows.diffs import Diffs

if TYPE_CHECKING:
    from graftwork.protocol.evaluation_parts import Distributions
    from graftwork.protocol.evaluations import EvaluationBody

#: Answers of an arm that are looked at, the newest of them: what a look takes is bounded however long a step lasts.
MOST = 20_000


class Known:
    """For use from any thread; what it tells is read anew each time."""

    def __init__(self, database: Database, records: Records, diffs: Diffs, *, most: int = MOST) -> None:
        self._database, self._records, self._diffs, self._most = database, records, diffs, most

    def evidence(
        self, rollout: Rollout, arm: str, *, since: datetime, now: datetime, settle_s: float, answers: bool
    ) -> Evidence:
        """What is known of an arm and of the stable one by now; their answers only where they are asked for."""
        candidate, stable = (
            Arm(
                self._answers(rollout, one, since=since, now=now, settle_s=settle_s) if answers else (),
                self.evaluations(rollout.tenant, rollout.arms[one]),
            )
            for one in (arm, STABLE)
        )
        return Evidence(candidate, stable, baseline(candidate) or baseline(stable))

    def evaluations(self, tenant: str, version: ArmVersion) -> Sequence[EvaluationBody]:
        """Those of a version that nothing supersedes, in their order; none where it has gone."""
        with self._database.reading() as tx:
            return evaluations_of(tx, tenant, f"{version.adapter}@{version.digest}")

    def _answers(
        self, rollout: Rollout, arm: str, *, since: datetime, now: datetime, settle_s: float
    ) -> tuple[Observation, ...]:
        """Only what this rollout decided: an arm of the same name of the one before it says nothing of this one.

        Of an arm that answers nobody, and gets copies, what became of these.
        """
        mirror = rollout.state.mirror
        copies = mirror is not None and mirror[0] == arm and not rollout.state.share(arm)
        kept: Diffs | Records = self._diffs if copies else self._records
        seen = kept.observations(
            rollout.tenant, rollout.route, rollout=rollout.name, arm=arm, since=timestamp(since), limit=self._most
        )
        return in_window(seen, arm=arm, digest=rollout.arms[arm].digest, since=since, now=now, settle_s=settle_s)


def evaluations_of(tx: Transaction, tenant: str, reference: str) -> Sequence[EvaluationBody]:
    """The evaluations of a version that nothing supersedes, in their order."""
    from graftwork.protocol.evaluations import AnyEvaluation

    try:
        version = resolve(tx, tenant, reference)
    except NotFound:
        return ()
    return [AnyEvaluation.model_validate(one.body).root for one in evaluations.current(tx, version)]


def baseline(arm: Arm) -> Distributions | None:
    """What the last evaluation of the family drift has counted."""
    from graftwork.protocol.evaluations import DriftEvaluation

    return next((one.distributions for one in reversed(arm.evaluations) if isinstance(one, DriftEvaluation)), None)

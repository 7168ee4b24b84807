"""Conditions: what a version still lacks before its policy may begin a rollout of it, read in one transaction."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import and_, select

from graftwork.db import Transaction
from graftwork.db.schema import rollout_arms, rollouts
from graftwork.errors import GraftworkError, InvalidRequest, NotFound
from graftwork.protocol.rollouts import RolloutSpec
from graftwork.registry.reading import view_of
from graftwork.registry.rules.policy import may_enter
from graftwork.registry.versions import Version
from graftwork.registry.view import AdapterView
from graftwork.traffic.gates.arguments import fill, given, told
from graftwork.traffic.gates.evidence import Arm, Evidence
from graftwork.traffic.gates.gates import judge
from graftwork.traffic.gates.templates import Templates
from graftwork.traffic.judging.known import baseline, evaluations_of
from graftwork.traffic.promotions.candidates import candidate
from graftwork.traffic.promotions.promotions import Promotion, rollout_of
from graftwork.traffic.rollouts import rows
from graftwork.traffic.rollouts.plan import STABLE, Plan
from graftwork.traffic.rollouts.rollouts import Rollouts
from graftwork.traffic.verdict import Verdict

#: Ends of a rollout after which its candidate is not tried again by itself: what was superseded was not tried.
TRIED: Final = frozenset({"promoted", "completed", "aborted"})


@dataclass(frozen=True)
class Found:
    """Why not, or nothing and on which evidence."""

    waits_for: tuple[str, ...]
    evidence: dict[str, Any] | None = None
    #: The rollout that this very revision of the policy has begun for this version.
    begun: str | None = None
    #: Nothing that may happen lets this revision of the policy begin a rollout of this version any more.
    settled: bool = False


def actor_of(policy: Promotion) -> str:
    """As whom a policy acts: `promotion:NAME/REVISION`."""
    return f"promotion:{policy.label}"


class Conditions:
    """For use from any thread."""

    def __init__(self, rollouts: Rollouts, templates: Templates) -> None:
        self._rollouts, self._templates = rollouts, templates

    def of(self, tx: Transaction, policy: Promotion, wanted: Version) -> Found:
        """Whether everything holds in this transaction; all that does not, for people to read."""
        spec, route = policy.spec, policy.spec.route or wanted.adapter
        try:
            view = view_of(tx, policy.tenant, wanted.adapter)
        except NotFound as error:
            return Found((error.message,), settled=True)
        version = candidate(view, spec.when)
        if version is None or version.digest != wanted.digest:
            return Found((f"{wanted.label} is no longer the version that the policy means.",))
        if (before := _before(tx, policy, version, route)) is not None:
            return before
        running = rows.newest(tx, policy.tenant, route)
        lacks = [f"The rollout {running.name} is not over."] if running and not running.state.ended else []
        lacks += self._people(policy, view, version)
        stable: Version | None = None
        try:
            stable = self._rollouts.arms_in(tx, policy.tenant, rollout_of(spec, wanted.adapter, version.label))[1][
                STABLE
            ]
        except GraftworkError as error:
            lacks.append(error.message)
        lacks += dict.fromkeys(self._unfit(tx, policy, rollout_of(spec, wanted.adapter, version.label)))
        evidence = None
        if spec.gate is not None:
            verdict, evidence = self._gate(tx, policy, version, stable)
            lacks += [] if verdict.result == "pass" else [f"The gate {spec.gate.name}: {verdict.reason}"]
        return Found(tuple(lacks), evidence)

    def _people(self, policy: Promotion, view: AdapterView, version: Version) -> Iterator[str]:
        """What the lifecycle's policy and people say of it."""
        for reason in may_enter("production", version, view.standing.policy):
            yield f"The policy keeps it out of production: {reason}."
        if version.approval == "rejected" or (policy.spec.approved and version.approval != "approved"):
            yield f"Its approval is {version.approval}."
        if version.deprecated is not None:
            yield "It is deprecated."

    def _unfit(self, tx: Transaction, policy: Promotion, wanted: RolloutSpec) -> Iterator[str]:
        """What its rollout would be judged by and cannot: no such template, or arguments that do not fit it."""
        for one in Plan.of(wanted).analyses:
            try:
                fill(one.name, self._templates.show_in(tx, policy.tenant, one.name, one.revision).spec, one.args)
            except (NotFound, InvalidRequest) as error:
                yield f"spec.strategy: {error.message}"

    def _gate(
        self, tx: Transaction, policy: Promotion, version: Version, stable: Version | None
    ) -> tuple[Verdict, dict[str, Any] | None]:
        gate = policy.spec.gate
        assert gate is not None, "whoever asks has looked"
        try:
            template = self._templates.show_in(tx, policy.tenant, gate.name, gate.revision)
            filled = fill(gate.name, template.spec, given(gate.args))
        except (NotFound, InvalidRequest) as error:
            return Verdict("inconclusive", error.message), None
        arms = [Arm(evaluations=_evaluations(tx, one)) for one in (version, stable)]
        whole = judge(filled.spec, Evidence(arms[0], arms[1], baseline(arms[0]) or baseline(arms[1]))).whole
        by = {"name": gate.name, "revision": template.revision.number, "args": told(filled.args)}
        said = {"result": whole.result, "reason": whole.reason}
        return whole, {"gate": {**by, **said, "metrics": [one.to_json() for one in whole.parts]}}


def _evaluations(tx: Transaction, version: Version | None) -> Any:
    return () if version is None else evaluations_of(tx, version.tenant, f"{version.adapter}@{version.digest}")


def _before(tx: Transaction, policy: Promotion, version: Version, route: str) -> Found | None:
    """What became of it before: begun by this revision of the policy, or tried to an end by whomever."""
    same = and_(*(rollout_arms.c[name] == rollouts.c[name] for name in ("tenant", "route", "revision")))
    query = (
        select(rollouts.c.revision, rollouts.c.status, rollouts.c.created_by)
        .join(rollout_arms, same)
        .where(
            rollout_arms.c.tenant == version.tenant,
            rollout_arms.c.adapter == version.adapter,
            rollout_arms.c.sequence == version.sequence,
            rollout_arms.c.arm != STABLE,
            rollouts.c.route == route,
        )
        .order_by(rollouts.c.revision.desc())
    )
    for row in tx.execute(query):
        name, mine = f"{route}/{row.revision}", row.created_by == actor_of(policy)
        if row.status in TRIED:
            said = f"The rollout {name} of it was {row.status}; it is not begun again by itself."
        elif mine:
            said = f"The rollout {name} of it is {row.status}."
        else:  # somebody's that another one has superseded, or that runs still
            continue
        return Found((said,), begun=name if mine else None, settled=True)
    return None

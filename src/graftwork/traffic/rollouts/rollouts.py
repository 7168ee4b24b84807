"""Rollouts: starts them, keeps where they stand, and does what people and the controller decide; events included."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final

from graftwork.access import events
from graftwork.access.clock import Clock, timestamp
from graftwork.access.names import check_name, is_name
from graftwork.db import Database, Transaction
from graftwork.db.lease import Held
from graftwork.db.time import DatabaseClock
from graftwork.errors import Conflict, Forbidden, InvalidRequest, NotFound, PreconditionFailed
from graftwork.protocol.canonical import canonical
from graftwork.protocol.rollouts import RolloutSpec
from graftwork.registry.idempotency import Once, keep, recall
from graftwork.registry.page import Page, check_page_size
from graftwork.registry.versions import Version
from graftwork.traffic.rollouts import pointer, rows
from graftwork.traffic.rollouts.advance import (
    Action,
    Evidence,
    Outcome,
    abort,
    advance,
    begin,
    forbid,
    pause,
    promote,
    resume,
    supersede,
)
from graftwork.traffic.rollouts.history import history_page
from graftwork.traffic.rollouts.plan import STABLE, Plan, pinned
from graftwork.traffic.rollouts.ports import Judge
from graftwork.traffic.rollouts.rollout import ArmVersion, Rollout
from graftwork.traffic.rollouts.subjects import subject_of

#: Who does what a plan says, in events.
CONTROLLER: Final = "rollout-controller"


class Rollouts:
    """The rollouts of one database; many threads and many servers may change them at once.

    Methods raise InvalidRequest for what cannot be read, NotFound for what is not there or belongs to another tenant.
    With `expected` they raise PreconditionFailed unless the newest rollout of the route has that revision.
    """

    def __init__(self, database: Database, clock: Clock | None = None, *, judge: Judge | None = None) -> None:
        self._database = database
        self._clock = clock or DatabaseClock(database)  # the one clock that all servers share
        self._judge = judge

    def start(self, tenant: str, spec: RolloutSpec, *, actor: str, reason: str | None, once: Once | None) -> Rollout:
        """Begin a rollout; one of the same route that runs is superseded, and nothing of it counts any more.

        Raises:
            Conflict: the route means that version already, or cannot mean it, or nothing.
            Forbidden: the policy does not let a candidate serve.
        """
        spec, now = self.prepared(tenant, spec), self._clock()
        with self._database.transaction() as tx:
            if once is not None and (known := recall(tx, tenant, once)) is not None:
                return self._at(tx, tenant, known["route"], known["revision"])
            found = self.start_in(tx, tenant, spec, now=now, actor=actor, reason=reason or "")
            if once is not None:
                keep(tx, tenant, once, {"route": found.route, "revision": found.revision}, now=now)
            return found

    def prepared(self, tenant: str, spec: RolloutSpec) -> RolloutSpec:
        """The same, which names the revision of each template and all its arguments: what becomes of a template changes
        no rollout that runs.

        Raises:
            InvalidRequest: it cannot be read, there is no such template, its arguments do not fit, or nobody here
                could do it.
        """
        self._check_possible(Plan.of(spec))
        return spec if self._judge is None else pinned(spec, partial(self._judge.pin, tenant))

    def arms_in(self, tx: Transaction, tenant: str, spec: RolloutSpec) -> tuple[str, dict[str, Version]]:
        """The reference that a rollout would lead away from, and the version of each arm; raises as `start` does."""
        reference, stable = pointer.target(tx, tenant, spec.route, spec.stable)
        arms = {STABLE: stable}
        for one in spec.candidates:
            version = pointer.candidate(tx, tenant, one.reference, reference)
            _check_candidate(version, stable, arms)
            arms[one.arm] = version
        return reference, arms

    def start_in(
        self,
        tx: Transaction,
        tenant: str,
        spec: RolloutSpec,
        *,
        now: datetime,
        actor: str,
        reason: str,
        evidence: Mapping[str, Any] | None = None,
    ) -> Rollout:
        """As `start`, in the caller's transaction; `spec` is `prepared`, and `evidence` what it is begun on."""
        reference, versions = self.arms_in(tx, tenant, spec)
        arms = {name: _arm(name, version) for name, version in versions.items()}
        last, at = rows.newest(tx, tenant, spec.route), timestamp(now)
        revision = last.revision + 1 if last else 1
        if last is not None and not last.state.ended:
            self._write(tx, last, supersede(last.state, now, f"Revision {revision} began."), actor=actor, at=now)
        state = begin(now, reason)
        told = {**spec.model_dump(mode="json", by_alias=True, exclude_unset=True), "stable": reference}
        begun = Rollout(tenant, spec.route, revision, told, arms, state, 1, (), at, actor, at, None)
        rows.insert(tx, begun)
        after = state.brief()
        row = {"kind": "started", "reason": state.reason, "before": None, "after": canonical(after, what="state")}
        row |= {"evidence": canonical(dict(evidence), what="evidence") if evidence is not None else None}
        rows.insert_step(tx, begun, 1, {**row, "created_at": at, "created_by": actor})
        payload = {"revision": revision, "from": None, "to": after, "reason": state.reason, "spec": told}
        payload |= {"arms": {name: _brief(one) for name, one in arms.items()}}
        payload |= {"evidence": dict(evidence)} if evidence is not None else {}
        events.append(tx, tenant, actor, "rollout.started", subject_of(spec.route), payload, at=at)
        return self._at(tx, tenant, spec.route, revision)

    def retry(
        self, tenant: str, route: str, *, actor: str, reason: str | None, once: Once | None, expected: int | None = None
    ) -> Rollout:
        """Begin the newest rollout of a route again, from its first step; Conflict unless it was aborted."""
        last = self.get(tenant, route)
        _check_expected(last, expected)
        if last.state.status != "aborted":
            raise Conflict(
                f"The rollout {last.name} is {last.state.status}; only an aborted one is tried again. "
                "`graftwork rollout start FILE` begins anew."
            )
        again = RolloutSpec.model_validate(last.spec)
        return self.start(tenant, again, actor=actor, reason=reason or f"{last.name} again.", once=once)

    def get(self, tenant: str, route: str) -> Rollout:
        """The newest rollout of a route."""
        check_name(route, what="route")
        with self._database.reading() as tx:
            return self._newest(tx, tenant, route)

    def list(
        self, tenant: str, *, status: str | None = None, page_size: int = 100, page_token: str | None = None
    ) -> Page[Rollout]:
        """The newest rollout of each route, by route."""
        check_page_size(page_size)
        if page_token and not is_name(page_token):
            raise InvalidRequest("page_token is not one that a list gave out.", field="page_token")
        with self._database.reading() as tx:
            found = rows.page(tx, tenant, status=status, after=page_token or "", limit=page_size + 1)
        more = len(found) > page_size
        return Page(tuple(found[:page_size]), found[page_size - 1].route if more else None)

    def history(self, tenant: str, route: str, *, page_size: int, page_token: str | None) -> Page[Mapping[str, Any]]:
        """The changes of all rollouts of a route, the newest first."""
        self.get(tenant, route)
        with self._database.reading() as tx:
            return history_page(tx, tenant, route, page_size=page_size, page_token=page_token)

    def pause(self, tenant: str, route: str, **told: Any) -> Rollout:
        return self._told(tenant, route, lambda one, now, why: pause(one.state, now, why), **told)

    def resume(self, tenant: str, route: str, **told: Any) -> Rollout:
        return self._told(tenant, route, lambda one, now, why: resume(one.state, now, why), **told)

    def promote(self, tenant: str, route: str, *, arm: str | None = None, **told: Any) -> Rollout:
        """Let the route mean a candidate now; nothing happens where it does already.

        Raises:
            Forbidden: the policy does not allow it.
            Conflict: it has ended; also as it should, where the route was moved since.
        """
        return self._told(tenant, route, lambda one, now, why: promote(one.plan, one.state, now, why, arm), **told)

    def abort(self, tenant: str, route: str, **told: Any) -> Rollout:
        """Everybody is answered by the stable version again, at once."""
        return self._told(tenant, route, lambda one, now, why: abort(one.state, now, why), **told)

    def advance(self, seen: Rollout, evidence: Evidence, held: Held, now: datetime) -> Rollout | None:
        """Do what is to be done by now; None where somebody else has done something, or the right to act is gone.

        Where that is nothing, nothing is asked of the database. What the policy forbids makes it wait for a person.
        """
        if not advance(seen.plan, seen.state, now, evidence)[1]:
            return seen
        try:
            return self._advance(seen, held, lambda one: advance(one.plan, one.state, now, evidence), now)
        except Forbidden as error:
            why = error.message
            return self._advance(seen, held, lambda one: forbid(one.state, now, why), now)

    def tell(
        self, seen: Rollout, analyses: Sequence[Mapping[str, Any]], waits_for: str | None, held: Held, now: datetime
    ) -> None:
        """Keep how its arms stand and what it waits for; nothing where it has ended, or the right to act is gone."""
        with self._database.transaction() as tx:
            one = rows.at_revision(tx, seen.tenant, seen.route, seen.revision)
            if one is not None and not one.state.ended and held.holds(tx):
                stamped = [{**told, "looked_at": timestamp(now)} for told in analyses]
                rows.write_seen(tx, one, stamped, waits_for)

    def _advance(
        self, seen: Rollout, held: Held, decide: Callable[[Rollout], Outcome], now: datetime
    ) -> Rollout | None:
        with self._database.transaction() as tx:
            one = rows.at_revision(tx, seen.tenant, seen.route, seen.revision)
            if one is None or one.changes != seen.changes or not held.holds(tx):
                return None
            return self._write(tx, one, decide(one), actor=CONTROLLER, at=now)

    def _told(
        self,
        tenant: str,
        route: str,
        decide: Callable[[Rollout, datetime, str], Outcome],
        *,
        actor: str,
        reason: str | None = None,
        expected: int | None = None,
    ) -> Rollout:
        check_name(route, what="route")
        now = self._clock()
        with self._database.transaction() as tx:
            one = self._newest(tx, tenant, route)
            _check_expected(one, expected)
            outcome = decide(one, now, reason or "")
            if (arm := one.state.promoted) is not None:
                _check_meant(tx, one, one.arms[arm])
            return self._write(tx, one, outcome, actor=actor, at=now)

    def _write(self, tx: Transaction, one: Rollout, outcome: Outcome, *, actor: str, at: datetime) -> Rollout:
        after, actions = outcome
        if not actions:
            return one
        stamp = timestamp(at)
        for number, action in enumerate(actions, one.changes + 1):
            self._record(tx, one, number, action, actor, stamp)
        rows.write_state(tx, one, after, changes=one.changes + len(actions), at=stamp)
        return self._at(tx, one.tenant, one.route, one.revision)

    def _record(self, tx: Transaction, one: Rollout, number: int, action: Action, actor: str, at: str) -> None:
        if action.promote is not None:
            self._check_unmoved(tx, one)
            to, why = one.arms[action.promote], f"Rollout {one.name}: {action.after.reason}"
            pointer.move(tx, one.tenant, one.route, one.spec["stable"], to, actor=actor, reason=why, at=at)
        before, after, why = action.before.brief(), action.after.brief(), action.after.reason
        row = {"kind": action.kind, "reason": why, "before": canonical(before, what="state")}
        row |= {"after": canonical(after, what="state"), "created_at": at, "created_by": actor}
        told = {"revision": one.revision, "from": before, "to": after, "reason": why}
        if action.judged is not None:
            evidence = {"analyses": action.judged.to_json()}
            row |= {"evidence": canonical(evidence, what="evidence")}
            told |= {"evidence": evidence}
        rows.insert_step(tx, one, number, row)
        promoted = {"arm": action.promote, **_brief(one.arms[action.promote])} if action.promote else {}
        kind = f"rollout.{action.kind}"
        events.append(tx, one.tenant, actor, kind, subject_of(one.route), {**told, **promoted}, at=at)

    def _check_possible(self, plan: Plan) -> None:
        """Raises InvalidRequest for what nobody here could do."""
        if plan.analyses and self._judge is None:
            raise InvalidRequest(
                f"The analysis {plan.analyses[0].name!a} cannot be made: nothing here judges. Hold by `pause`, and "
                "promote or abort by hand.",
                field="spec.strategy",
            )

    def _check_unmoved(self, tx: Transaction, one: Rollout) -> None:
        """Raises Conflict where somebody has moved the route's pointer, which is not to be undone by a promotion."""
        _, now = pointer.target(tx, one.tenant, one.route, one.spec["stable"])
        if now.digest != one.arms[STABLE].digest:
            raise Conflict(f"{one.route} was made to mean {now.label} meanwhile; the rollout {one.name} is over.")

    def _newest(self, tx: Transaction, tenant: str, route: str) -> Rollout:
        if (found := rows.newest(tx, tenant, route)) is None:
            raise NotFound(f"There was no rollout of {route}. `graftwork rollout start` begins one.")
        return found

    def _at(self, tx: Transaction, tenant: str, route: str, revision: int) -> Rollout:
        found = rows.at_revision(tx, tenant, route, revision)
        assert found is not None, "it was just written, or was there before"
        return found


def _check_candidate(version: Version, stable: Version, arms: Mapping[str, Version]) -> None:
    for name, other in arms.items():
        if other.digest == version.digest:
            raise Conflict(f"{version.label} is the arm {name} already.")
    if version.base_digest != stable.base_digest:
        raise Conflict(f"{version.label} was pushed for another base than {stable.label}; one server runs one base.")
    if version.stage == "archived":
        again = f"`graftwork stage set {version.label} staging` makes it a candidate again"
        raise Conflict(f"{version.label} is archived; {again}.")


def _check_meant(tx: Transaction, one: Rollout, promoted: ArmVersion) -> None:
    """Raises Conflict where a route no longer means what it was made to mean: to say so again would not be true."""
    meant = pointer.meant(tx, one.tenant, one.route)
    if promoted.digest in {version.digest for version in meant}:
        return
    now = " and ".join(version.label for version in meant) or "no version alone"
    raise Conflict(
        f"The rollout {one.name} promoted {promoted.label}, but {one.route} was moved since, and means {now} now. "
        "`graftwork rollout start FILE` begins again; where the version is archived, after "
        f"`graftwork stage set {promoted.label} staging`."
    )


def _check_expected(found: Rollout, expected: int | None) -> None:
    if expected not in (None, found.revision):
        raise PreconditionFailed(f"The newest rollout of {found.route} is revision {found.revision}, not {expected}.")


def _arm(name: str, version: Version) -> ArmVersion:
    return ArmVersion(name, version.adapter, version.sequence, version.semver, version.digest)


def _brief(arm: ArmVersion) -> dict[str, Any]:
    return {"adapter": arm.adapter, "version": arm.semver, "sequence": arm.sequence, "digest": arm.digest}

"""Lifecycle: stages, approvals, deprecations and policies; every change writes its event in its transaction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graftwork.access import events
from graftwork.access.clock import Clock, timestamp, utc_now
from graftwork.db import Database, Transaction
from graftwork.errors import Forbidden, InvalidRequest, NotFound, PreconditionFailed
from graftwork.registry import pointers
from graftwork.registry.changes import apply
from graftwork.registry.idempotency import Once, once_only
from graftwork.registry.pointers import ABSENT, PRESENT
from graftwork.registry.reading import check_adapter, find, parsed, view_for, whole
from graftwork.registry.reference import Reference
from graftwork.registry.rules import approval, deprecation, policies
from graftwork.registry.rules.approval import Opinion, Verdict
from graftwork.registry.rules.deprecation import DEPRECATED, UNDEPRECATED, Deprecation
from graftwork.registry.rules.policies import WHOLE_TENANT
from graftwork.registry.rules.policy import OPEN, Policy
from graftwork.registry.rules.stages import Stage
from graftwork.registry.subjects import subject_of
from graftwork.registry.versions import Version
from graftwork.registry.view import AdapterView


class Lifecycle:
    """What may become of versions, in one database; beside `Registry`, and raising as it does."""

    def __init__(self, database: Database, clock: Clock = utc_now) -> None:
        self._database = database
        self._clock = clock

    def set_stage(
        self,
        tenant: str,
        reference: Reference | str,
        stage: Stage,
        *,
        expected: Stage | None = None,
        if_match: str | None = None,
        actor: str,
        reason: str | None = None,
    ) -> Version:
        """Put a version into a stage; into production it is promoted. No event where it is there already.

        Args:
            expected: the stage it must be in now.
            if_match: the `etag` it must have now, or PRESENT for any.

        Raises:
            Conflict: it may not go there from the stage it is in; the message names where it may.
            Forbidden: the policy demands what it lacks.
            PreconditionFailed: it is not as you expected.
        """
        with self._database.transaction() as tx:
            view, found = _found(tx, tenant, reference, if_match)
            change = pointers.plan_stage(view.aliases, found, stage, view.standing.policy, expected=expected)
            apply(tx, view, change, actor=actor, reason=reason, at=self._now())
            return whole(tx, found)

    def decide(
        self,
        tenant: str,
        reference: Reference | str,
        verdict: Verdict,
        *,
        actor: str,
        reason: str | None = None,
        once: Once | None = None,
    ) -> Version:
        """Approve or reject a version; nothing is recorded where the actor's last opinion says just that.

        Raises:
            Forbidden: the policy does not let this actor decide, or not about a version of its own.
        """

        def change() -> tuple[Version, bool]:
            view, found = _found(tx, tenant, reference)
            _check_may(actor, verdict, found, view.standing.policy)
            opinion = Opinion(verdict, reason, actor, self._now())
            before = [one for one in view.standing.opinions.get(found.sequence, ()) if one.actor == actor]
            if not before or (before[-1].verdict, before[-1].reason) != (verdict, reason):
                approval.add(tx, tenant, found.adapter, found.sequence, opinion)
                _tell(tx, found, actor, f"version.{verdict}", {"reason": reason}, opinion.at)
            return whole(tx, found), False

        with self._database.transaction() as tx:
            return once_only(tx, tenant, once, change, now=self._clock())[0]

    def opinions(self, tenant: str, reference: Reference | str) -> tuple[Version, tuple[Opinion, ...]]:
        """A version, and who approved or rejected it, when and why, the oldest first."""
        with self._database.reading() as tx:
            view, found = _found(tx, tenant, reference)
            return found, view.standing.opinions.get(found.sequence, ())

    def deprecate(
        self,
        tenant: str,
        reference: Reference | str,
        message: str,
        *,
        until: str | None = None,
        if_match: str | None = None,
        actor: str,
    ) -> Version:
        """Have every answer of a version say that it should no longer be used, and why; it is served as before.

        Raises:
            InvalidRequest: the message is empty.
            PreconditionFailed: the version's `etag` is not `if_match`.
        """
        if not message.strip():
            raise InvalidRequest("message is empty; say what to use instead.", field="message")
        with self._database.transaction() as tx:
            _, found = _found(tx, tenant, reference, if_match)
            before = found.deprecated
            if before is None or (before.message, before.until) != (message, until):
                now = self._now()
                after = Deprecation(message, before.since if before else now, until)
                deprecation.put(tx, tenant, found.adapter, found.sequence, after, actor=actor)
                _tell(tx, found, actor, DEPRECATED, after.to_json(), now)
            return whole(tx, found)

    def undeprecate(
        self,
        tenant: str,
        reference: Reference | str,
        *,
        if_match: str | None = None,
        actor: str,
        reason: str | None = None,
    ) -> Version:
        """Take a deprecation back; nothing happens where there is none. Raises as `deprecate`."""
        with self._database.transaction() as tx:
            _, found = _found(tx, tenant, reference, if_match)
            if found.deprecated is not None:
                deprecation.put(tx, tenant, found.adapter, found.sequence, None, actor=actor)
                _tell(tx, found, actor, UNDEPRECATED, {"reason": reason}, self._now())
            return whole(tx, found)

    def policy(self, tenant: str, adapter: str | None = None) -> tuple[Policy, str | None]:
        """The policy that holds for an adapter, or for the tenant, and the adapter whose own it is, if it is one's."""
        with self._database.reading() as tx:
            if adapter is not None:
                check_adapter(tx, tenant, adapter)
                if (own := policies.policy_at(tx, tenant, adapter)) is not None:
                    return own, adapter
            return policies.policy_at(tx, tenant, WHOLE_TENANT) or OPEN, None

    def set_policy(
        self,
        tenant: str,
        policy: Policy | None,
        *,
        adapter: str | None = None,
        if_match: str | None = None,
        actor: str,
        reason: str | None = None,
    ) -> None:
        """Set the tenant's policy, or one adapter's; with None take it away. It holds for what happens from now on.

        What is in production stays there; what the policy forbids to serve is no longer served.

        Args:
            if_match: the `etag` of the policy that must hold there now; PRESENT or ABSENT: whether one was set there.

        Raises:
            PreconditionFailed: it is another one.
            NotFound: it is to be taken away, and none was set there.
        """
        place = WHOLE_TENANT if adapter is None else adapter
        with self._database.transaction() as tx:
            if adapter is not None:
                check_adapter(tx, tenant, adapter)
            own = policies.policy_at(tx, tenant, place)
            now = own or policies.policy_at(tx, tenant, WHOLE_TENANT) or OPEN
            if if_match not in (None, now.etag, ABSENT if own is None else PRESENT):
                raise PreconditionFailed("The policy has changed since you read it; look again.")
            if policy is None and own is None:
                whose = "the tenant" if adapter is None else f"{adapter} of its own"
                raise NotFound(f"No policy was set for {whose}, so there is none to take away.")
            policies.put(tx, tenant, place, policy, actor=actor, reason=reason, at=self._now())

    def _now(self) -> str:
        return timestamp(self._clock())


def _found(
    tx: Transaction, tenant: str, reference: Reference | str, if_match: str | None = None
) -> tuple[AdapterView, Version]:
    wanted = parsed(reference)
    view = view_for(tx, tenant, wanted)
    found = find(tx, view, wanted)
    if if_match not in (None, PRESENT, found.etag):
        raise PreconditionFailed(f"{found.label} has changed since you read it; look again.")
    return view, found


def _tell(tx: Transaction, version: Version, actor: str, kind: str, facts: Mapping[str, Any], at: str) -> None:
    events.append(tx, version.tenant, actor, kind, subject_of(version.adapter), {**version.brief(), **facts}, at=at)


def _check_may(actor: str, verdict: Verdict, version: Version, policy: Policy) -> None:
    rule = policy.approval
    if not rule.may_decide(actor):
        raise Forbidden(
            f"The policy lets others than {actor} approve and reject versions of {version.adapter}; "
            f"`graftwork policy show {version.adapter}` says whom."
        )
    if verdict == "approved" and not rule.may_approve(actor, version.created_by):
        raise Forbidden(
            f"{actor} pushed {version.label}, and the policy has nobody approve what they pushed: "
            f"`graftwork approve {version.label}` is for somebody else."
        )

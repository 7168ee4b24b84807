"""Promoter: begins the rollouts that promotion policies ask for; on one server of all, once for each version."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from time import perf_counter
from typing import Any, Final

from graftwork.access.clock import Clock
from graftwork.db import Database
from graftwork.db.lease import Held, Lease
from graftwork.errors import GraftworkError, Unavailable
from graftwork.registry.page import Page, check_page_size
from graftwork.registry.snapshot import Snapshot
from graftwork.registry.versions import Version
from graftwork.traffic.promotions.candidates import candidates
from graftwork.traffic.promotions.conditions import Conditions, Found, actor_of
from graftwork.traffic.promotions.promotions import PROMOTION, LivePromotions, Promotion, rollout_of
from graftwork.traffic.resources import rows
from graftwork.traffic.rollouts.live import LiveRollouts
from graftwork.traffic.rollouts.rollouts import Rollouts

log = logging.getLogger(__name__)

#: Of the time, what part it may take to look whether conditions hold.
SHARE: Final = 0.05

#: Tenant, policy, its revision, and the digest of a version.
_Case = tuple[str, str, int, str]


@dataclass(frozen=True)
class Standing:
    """A version that a policy means, and how it stands."""

    policy: Promotion
    version: Version
    found: Found

    def to_json(self) -> dict[str, Any]:
        version = self.version
        return {
            "adapter": version.adapter,
            "version": version.label,
            "digest": version.digest,
            "route": self.policy.spec.route or version.adapter,
            "waits_for": list(self.found.waits_for),
            "rollout": self.found.begun,
        }


class Promoter:
    """It looks again when the log has grown, since all that it waits for is told there; and holds no lease in vain."""

    def __init__(
        self,
        database: Database,
        rollouts: Rollouts,
        conditions: Conditions,
        lease: Lease,
        snapshot: Callable[[], Snapshot],
        clock: Clock,
        timer: Callable[[], float] = perf_counter,
    ) -> None:
        self._database, self._rollouts, self._conditions = database, rollouts, conditions
        self._lease, self._snapshot, self._clock, self._timer = lease, snapshot, clock, timer
        self._seen: Snapshot | None = None
        self._settled: frozenset[_Case] = frozenset()
        self._rested_s = 0.0

    def look(self) -> int:
        """How many rollouts it began; where no policy waits for anything, the database is not asked."""
        snapshot, began_s = self._snapshot(), self._timer()
        if snapshot is self._seen or began_s < self._rested_s:
            return 0
        waiting = {_case(policy, version): (policy, version) for policy, version in _waiting(snapshot)}
        self._settled &= waiting.keys()
        begun, whole = self._tried([one for case, one in waiting.items() if case not in self._settled])
        if whole:
            self._seen = snapshot
        ended_s = self._timer()
        self._rested_s = ended_s + (ended_s - began_s) / SHARE
        return begun

    def standing(self, policy: Promotion, *, page_size: int = 100, page_token: str = "") -> Page[Standing]:
        """What a policy means now, by adapter, and what each of them waits for."""
        check_page_size(page_size)
        meant = candidates(self._snapshot(), policy.tenant, policy.spec, after=page_token)
        found = list(islice(meant, page_size + 1))
        with self._database.reading() as tx:
            told = [Standing(policy, one, self._conditions.of(tx, policy, one)) for one in found[:page_size]]
        return Page(tuple(told), told[-1].version.adapter if len(found) > page_size else None)

    def _tried(self, due: Sequence[tuple[Promotion, Version]]) -> tuple[int, bool]:
        """How many were begun, and whether what kept the others is told by the log when it changes."""
        begun, whole = 0, True
        for policy, version in due:
            if (held := self._lease.hold()) is None:
                return begun, False  # another server looks; this one does as soon as it has the lease
            try:
                begun += self._begun(policy, version, held, self._clock())
            except GraftworkError as error:  # the others go on
                log.warning("The promotion policy %s could not go on: %s", policy.name, error.message)
                whole &= not isinstance(error, Unavailable)
            except Exception:
                log.exception("The promotion policy %s could not go on; it is tried again.", policy.name)
                whole = False
        return begun, whole

    def _begun(self, policy: Promotion, version: Version, held: Held, now: datetime) -> bool:
        with self._database.reading() as tx:  # most of the time something is missing: nobody waits for a turn
            found = self._conditions.of(tx, policy, version)
        if found.settled:
            self._settled |= {_case(policy, version)}
        return not found.waits_for and self._begin(policy, version, held, now)

    def _begin(self, policy: Promotion, version: Version, held: Held, now: datetime) -> bool:
        """Begin it if everything still holds in the transaction that does; raises Unavailable without the lease."""
        spec = self._rollouts.prepared(policy.tenant, rollout_of(policy.spec, version.adapter, version.label))
        with self._database.transaction() as tx:
            if not held.holds(tx):
                raise Unavailable("Another server has the lease of rollouts now.")
            live = rows.find_live(tx, PROMOTION, policy.tenant, policy.name)
            if live is None or live.revision.number != policy.revision.number:
                return False
            found = self._conditions.of(tx, live, version)
            if found.waits_for:
                return False
            self._rollouts.start_in(
                tx,
                policy.tenant,
                spec,
                now=now,
                actor=actor_of(policy),
                reason=_reason(policy, version),
                evidence=found.evidence,
            )
        return True


def _waiting(snapshot: Snapshot) -> Iterator[tuple[Promotion, Version]]:
    """What policies mean now, on routes where nothing is rolled out."""
    live = snapshot.part(LiveRollouts).by_route
    for policy in snapshot.part(LivePromotions).by_name.values():
        for version in candidates(snapshot, policy.tenant, policy.spec):
            if (policy.tenant, policy.spec.route or version.adapter) not in live:
                yield policy, version


def _case(policy: Promotion, version: Version) -> _Case:
    return policy.tenant, policy.name, policy.revision.number, version.digest


def _reason(policy: Promotion, version: Version) -> str:
    when = policy.spec.when
    why = f"{version.label} is {f'@{when.alias}' if when.alias is not None else f'in {when.stage}'}"
    gate = f", and passes {policy.spec.gate.name}" if policy.spec.gate is not None else ""
    return f"Promotion policy {policy.label}: {why}{gate}."

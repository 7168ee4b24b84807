"""Collector: lets versions go by the rules, and removes every byte that nobody wants any more; see `collection.py`."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from sqlalchemy import select

from graftwork.access import events
from graftwork.access.clock import Clock, timestamp, utc_now
from graftwork.access.events import Event
from graftwork.artifacts.stored import Stored
from graftwork.artifacts.stores import BlobStore
from graftwork.artifacts.uploads import Uploads
from graftwork.db import Database, Transaction
from graftwork.db.schema import adapters
from graftwork.errors import Unavailable
from graftwork.registry.adapters import has_versions
from graftwork.registry.reading import view_of
from graftwork.registry.retention import collection, sweep
from graftwork.registry.retention.claims import claims_of, derivations
from graftwork.registry.retention.deletion import delete_version, nobody
from graftwork.registry.retention.holders import HOLDERS, HolderRule, ReadHolders, holders_of
from graftwork.registry.retention.owner import check_owner
from graftwork.registry.retention.roots import wanted
from graftwork.registry.retention.rules import going, has_rules, rules_of
from graftwork.registry.retention.sweep import Bounds, Item, Kind, Known
from graftwork.registry.versions import Named, Version, deleted_versions, named_versions

#: Blobs that one transaction removes, and so for how long it holds up other writers; and how many at a time.
BATCH, AT_ONCE = 64, 16
#: A batch that has not begun to remove a blob by then removes it no more: its transaction may be over without its
#: knowing, as a server ends one whose client hangs.
BATCH_S = 30.0


class Tier(Protocol):
    """Where a version's bytes lie beside the store, by the digest of the version."""

    def held(self, tenant: str) -> Iterator[Stored]: ...

    def remove(self, tenant: str, digest: str) -> bool:
        """False, and no change, where somebody uses it."""
        ...


@dataclass(frozen=True)
class Collected:
    """What went, or would go."""

    items: tuple[Item, ...]
    young: tuple[Stored, ...]  #: what nobody wants and stays, since a push may count on it
    erased: tuple[str, ...]  #: labels of deleted versions of which nothing is left but what other versions have, too
    live: tuple[Named, ...]  #: the versions that stay

    def to_json(self) -> dict[str, Any]:
        return {
            "items": [item.to_json() for item in self.items],
            "bytes": sum(item.bytes for item in self.items if item.kind != "version"),
            "young": {"blobs": len(self.young), "bytes": sum(one.bytes for one in self.young)},
            "erased": list(self.erased),
        }


@dataclass(frozen=True)
class _Plan:
    """What is to go, with what is needed to say afterwards whose bytes are gone."""

    going: tuple[tuple[Version, str], ...]
    items: tuple[Item, ...]
    young: tuple[Stored, ...]
    gone: tuple[Version, ...]  #: deleted before, or going
    wanted: frozenset[str]
    live: tuple[Named, ...]


class Collector:
    """Looks through what one tenant has in the store and on this machine's disks.

    Args:
        tiers: what lies here of versions, by what items of it are called.
        others: as of `Deletions`.
    """

    def __init__(
        self,
        database: Database,
        store: BlobStore,
        uploads: Uploads,
        tiers: Mapping[Kind, Tier],
        clock: Clock = utc_now,
        others: Sequence[ReadHolders] = (),
    ) -> None:
        self._database, self._store, self._uploads = database, store, uploads
        self._tiers, self._clock, self._others = tiers, clock, others

    def look(self, tenant: str, bounds: Bounds, *, also: HolderRule = nobody) -> Collected:
        """What `collect` would do now; changes nothing and raises as it does."""
        plan = self._plan(tenant, bounds, also)
        return _told(plan, plan.items)

    def collect(self, tenant: str, bounds: Bounds, *, actor: str, also: HolderRule = nobody) -> Collected:
        """Remove what nobody wants, and say what went. Safe beside pushes, and when it is killed: begin again.

        Args:
            also: who needs versions that the database does not know of.

        Raises:
            Conflict: another collection has begun, or the store is another database's (`owner.py`).
            Unavailable: the store or the database does not answer. What was removed before is gone.
        """
        plan = self._plan(tenant, bounds, also)
        if not plan.items:
            return _told(plan, ())
        event, gone = self._begin(tenant, plan, actor, also)
        self._store.set_note(tenant, event.hash)
        begun = event.position
        removed = [*gone, *self._remove_blobs(tenant, begun, [one for one in plan.items if one.kind == "blob"])]
        removed += [one for one in plan.items if one.kind not in ("version", "blob") and self._removed(tenant, one)]
        done = _told(plan, removed)
        facts = {"removed": len(removed), "bytes": done.to_json()["bytes"], "erased": list(done.erased)}
        with self._database.transaction() as tx:
            collection.end(tx, tenant, actor, begun, facts, at=timestamp(self._clock()))
        return done

    def _plan(self, tenant: str, bounds: Bounds, also: HolderRule) -> _Plan:
        check_owner(self._database, self._store, tenant)
        with self._database.reading() as tx:
            let_go = tuple(self._let_go(tx, tenant, also))
            but = {(version.adapter, version.sequence) for version, _ in let_go}
            gone = (*deleted_versions(tx, tenant), *(version for version, _ in let_go))
            live = tuple(one for one in named_versions(tx, tenant) if (one.adapter, one.sequence) not in but)
            digests, kept = {one.digest for one in live}, wanted(tx, tenant, but=but)
        known = Known(
            wanted=kept,
            live=digests,
            deleted={version.digest: version.label for version in gone if version.digest not in digests},
            had={file.digest: version.label for version in gone for file in version.manifest.files},
        )
        now_s = self._clock().timestamp()
        blobs, young = sweep.blobs(self._store.list(tenant), known, bounds, now_s)
        aside, young_aside = sweep.quarantined(self._store.list(tenant, aside=True), known, bounds, now_s)
        items = [_going(version, why) for version, why in let_go] + blobs + aside
        items += sweep.uploads(self._uploads.held(tenant), bounds, now_s)
        for kind, tier in self._tiers.items():
            items += sweep.of_versions(kind, tier.held(tenant), known, bounds, now_s)
        return _Plan(let_go, tuple(items), (*young, *young_aside), gone, frozenset(kept), live)

    def _let_go(self, tx: Transaction, tenant: str, also: HolderRule) -> Iterator[tuple[Version, str]]:
        """The versions that the rules let go and that nobody needs, with why."""
        if not has_rules(tx, tenant):
            return
        derived, now = derivations(tx, tenant), self._clock()
        rules = (*HOLDERS, also, *(read(tx, tenant) for read in self._others))
        query = select(adapters.c.name).where(adapters.c.tenant == tenant, has_versions())
        for name in tx.execute(query.order_by(adapters.c.name)).scalars().all():
            claims = claims_of(tx, view_of(tx, tenant, name), derived)
            for version, why in going(rules_of(tx, tenant, name), claims.view, claims.promoted, now):
                if not holders_of(claims, version, rules):
                    yield version, why

    def _begin(self, tenant: str, plan: _Plan, actor: str, also: HolderRule) -> tuple[Event, list[Item]]:
        """Open the collection and delete the planned versions, but those that somebody needs meanwhile."""
        planned = {(version.adapter, version.sequence) for version, _ in plan.going}
        with self._database.transaction() as tx:
            at = timestamp(self._clock())
            still = [one for one in self._let_go(tx, tenant, also) if (one[0].adapter, one[0].sequence) in planned]
            for version, why in still:
                delete_version(tx, version, actor=actor, reason=f"retention: {why}", at=at)
            return collection.begin(tx, tenant, actor, at=at), [_going(version, why) for version, why in still]

    def _remove_blobs(self, tenant: str, begun: int, items: Sequence[Item]) -> Iterator[Item]:
        with self._database.reading() as tx:
            position, kept = events.head(tx), wanted(tx, tenant)
        for batch in (items[start : start + BATCH] for start in range(0, len(items), BATCH)):
            with self._database.transaction() as tx:
                until_s = time.monotonic() + BATCH_S
                collection.check_own(tx, tenant, begun)
                if (head := events.head(tx)) != position:  # whatever wants a blob tells the log
                    kept |= wanted(tx, tenant, after=position)
                    position = head
                unwanted = [item for item in batch if item.digest not in kept]
                with ThreadPoolExecutor(AT_ONCE) as pool:
                    list(pool.map(partial(self._remove_blob, tenant, until_s), unwanted))
            yield from unwanted

    def _remove_blob(self, tenant: str, until_s: float, item: Item) -> None:
        if time.monotonic() > until_s:
            raise Unavailable("The collection was held up, or the store is slow; begin it again.")
        self._store.delete(tenant, item.digest)

    def _removed(self, tenant: str, item: Item) -> bool:
        if item.kind == "quarantined":
            self._store.delete(tenant, item.digest, aside=True)
            return True
        if item.kind == "upload":
            return self._uploads.remove(tenant, item.digest)
        return self._tiers[item.kind].remove(tenant, item.digest)


def _going(version: Version, why: str) -> Item:
    return Item("version", version.digest, version.manifest.bytes, version.label, why)


def _told(plan: _Plan, removed: Sequence[Item]) -> Collected:
    return Collected(tuple(removed), plan.young, tuple(_erased(plan, removed)), plan.live)


def _erased(plan: _Plan, removed: Sequence[Item]) -> Iterator[str]:
    """Deleted versions that lost something and have nothing left; what other versions have is theirs."""
    went = {item.digest for item in removed}
    left = {one.digest for one in plan.young} | {item.digest for item in set(plan.items) - set(removed)}
    for version in plan.gone:
        own = {version.digest, *(file.digest for file in version.manifest.files)} - plan.wanted
        if own & went and not own & left:
            yield version.label

"""Snapshot: the immutable view requests are decided on; SnapshotReader replaces it when the log grew."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from typing import Any, TypeVar

from graftwork.access import events
from graftwork.access.access import Access
from graftwork.db import Database, Transaction
from graftwork.db.schema import policies
from graftwork.errors import NotFound, UnknownModel
from graftwork.registry.aliases import aliases_of, all_aliases
from graftwork.registry.reference import Reference
from graftwork.registry.rules.policies import all_policies, holding
from graftwork.registry.rules.policy import POLICY_SUBJECT
from graftwork.registry.rules.standing import read_standings, standing_of
from graftwork.registry.subjects import name_in
from graftwork.registry.versions import Version, all_versions, versions_of
from graftwork.registry.view import AdapterView

P = TypeVar("P")
#: Every (tenant, subject) that the log speaks of since what is known; None where nothing is.
Changed = Set[tuple[str, str]] | None
#: Reads one part of a snapshot again: told what it was (None at first), and what has changed since. It returns the same
#: object where none of that is its own.
ReadPart = Callable[[Transaction, Any, Changed], Any]


@dataclass(frozen=True)
class Snapshot:
    """Every adapter at one moment. Versions come without metadata and account; nothing in it can change.

    What parts above the registry decide on is read in the same moment, and found by its class.
    """

    position: int  #: of the last event it knows
    adapters: Mapping[tuple[str, str], AdapterView]  #: by (tenant, name), sorted
    parts: Mapping[type, Any] = field(default_factory=dict)

    def part(self, kind: type[P]) -> P:
        """The part of this class; raises KeyError where the reader was given none."""
        found: P = self.parts[kind]
        return found

    def resolve(self, tenant: str, reference: Reference) -> Version:
        """The version that answers to a reference; another tenant's is unknown, whether it exists or not, unless a
        grant lets this tenant call it.

        A bare name is `@production`; while the adapter never had one it is the newest version, which one sees
        by "production" missing among the version's aliases.

        Raises:
            UnknownModel: naming the reference.
        """
        owner = reference.tenant or tenant
        view = self.adapters.get((owner, reference.name))
        if owner != tenant and not self._access.may(tenant, "call", owner, reference.name):
            view = None
        found = view.find(reference.selector) if view is not None else None
        if found is None:
            raise UnknownModel(str(reference))
        return found

    def names(self, tenant: str) -> tuple[str, ...]:
        """A tenant's adapter names, sorted."""
        return tuple(view.name for view in self.by_tenant.get(tenant, ()))

    def granted(self, tenant: str) -> tuple[str, ...]:
        """What grants let a tenant call of others', as `owner/name`, sorted."""
        given = self._access.grants.get(tenant, ())
        owners = {one.tenant for one in given}
        return tuple(
            f"{owner}/{name}"
            for owner, name in self.adapters
            if owner in owners and any(one.tenant == owner and one.covers("call", name) for one in given)
        )

    @cached_property
    def by_tenant(self) -> Mapping[str, Sequence[AdapterView]]:
        """Each tenant's adapters, sorted by name; of tenants that have any."""
        return {tenant: tuple(views) for tenant, views in groupby(self.adapters.values(), lambda view: view.tenant)}

    @property
    def _access(self) -> Access:
        found: Access = self.parts.get(Access, _NOBODY)
        return found

    def with_digest(self, tenant: str, digest: str) -> Version:
        """One of the tenant's versions with this whole digest; all of them have the same manifest.

        Raises:
            NotFound: this tenant has none.
        """
        for version in self.all_with_digest(tenant, digest):
            return version
        raise NotFound(f"There is no version with the digest {digest}.")

    def all_with_digest(self, tenant: str, digest: str) -> Iterator[Version]:
        """One of each adapter that has these bytes."""
        for view in self.by_tenant.get(tenant, ()):
            if (found := view.by_digest.get(digest)) is not None:
                yield found


#: What a reader that was given no such part knows of grants.
_NOBODY = Access()
EMPTY = Snapshot(0, {})


class SnapshotReader:
    """Gives out the current snapshot of a database; for use from any thread.

    It sees every commit of this process at once. Those of others, by the database:

    - SQLite is asked for its data version in each call (microseconds), and the tables are read again, all in one
      moment, only when the event log has grown.
    - PostgreSQL tells (milliseconds after the commit), and the tables are read in the thread that listens, or that
      has committed here: never by who asks. While it cannot be reached, the last snapshot stays the current one.
    """

    def __init__(self, database: Database, parts: Mapping[type, ReadPart] | None = None) -> None:
        self._database = database
        self._parts = parts or {}
        #: Told of each snapshot that took the place of another, the old one first, by whoever has read it; to be quick.
        self.changed: Callable[[Snapshot, Snapshot], None] | None = None
        self._reading = threading.Lock()
        self._seen: tuple[int | None, Snapshot] = (None, EMPTY)
        self._tells: bool | None = None  # whether the database does; None until it was asked
        self._told = False  # of every commit, so that nobody has to ask

    def current(self) -> Snapshot:
        """The snapshot that requests are decided on now."""
        seen, snapshot = self._seen
        if self._told or self._database.data_version() == seen:
            return snapshot
        with self._reading:
            return self._refresh()

    def _refresh(self) -> Snapshot:
        # NOTE: one begins to be told, and the data version is read, before the tables. A commit in between is then
        # read twice, never missed.
        if self._tells is None:
            self._tells = self._database.watch(self._reread)
        version = self._database.data_version()
        if version != self._seen[0]:
            self._replace(version)
        self._told = self._tells
        return self._seen[1]

    def _reread(self) -> None:
        """Called when there may be commits; raises Unavailable where they cannot be read, to be called again."""
        with self._reading:
            self._replace(self._seen[0])

    def _replace(self, version: int | None) -> None:
        known = self._seen[1]
        snapshot = read_snapshot(self._database, known, self._parts)
        self._seen = version, snapshot
        if self.changed is not None and known is not EMPTY and snapshot is not known:
            self.changed(known, snapshot)


def read_snapshot(
    database: Database, known: Snapshot = EMPTY, parts: Mapping[type, ReadPart] | None = None
) -> Snapshot:
    """The snapshot of this moment; `known` itself when the log has not grown since.

    Only what the log has events about since `known` is read again: every change writes its event, so the rest is as
    it was.
    """
    with database.reading() as tx:
        position = events.head(tx)
        if position == known.position and known is not EMPTY:
            return known
        changed = None if known is EMPTY else events.subjects_after(tx, known.position)
        views = dict(_all_views(tx)) if changed is None else _views_again(tx, known.adapters, changed)
        read = {kind: read_part(tx, known.parts.get(kind), changed) for kind, read_part in (parts or {}).items()}
        return Snapshot(position, views, read)


def _views_again(
    tx: Transaction, known: Mapping[tuple[str, str], AdapterView], changed: Set[tuple[str, str]]
) -> dict[tuple[str, str], AdapterView]:
    """The adapters that changed, and all of a tenant whose policy did."""
    views: dict[tuple[str, str], AdapterView | None] = dict(known)
    for tenant in (tenant for tenant, subject in changed if subject == POLICY_SUBJECT):
        set_now = all_policies(tx, policies.c.tenant == tenant)
        own = (view for view in known.values() if view.tenant == tenant)
        views |= {(tenant, view.name): view.under(holding(set_now, tenant, view.name)) for view in own}
    keys = {(tenant, name) for tenant, subject in changed if (name := name_in(subject)) is not None}
    views |= {key: _one_view(tx, *key) for key in keys}
    return {key: view for key, view in sorted(views.items()) if view is not None}


def _all_views(tx: Transaction) -> Iterator[tuple[tuple[str, str], AdapterView]]:
    pointers, standings = all_aliases(tx), read_standings(tx)
    for key, group in groupby(all_versions(tx), key=lambda version: (version.tenant, version.adapter)):
        view = AdapterView.of(group, pointers.get(key, {}), standings.of(*key))
        assert view is not None, "a group has at least one version"
        yield key, view


def _one_view(tx: Transaction, tenant: str, name: str) -> AdapterView | None:
    pointers = aliases_of(tx, tenant, [name]).get(name, {})
    return AdapterView.of(versions_of(tx, tenant, name), pointers, standing_of(tx, tenant, name))

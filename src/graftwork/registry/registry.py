"""Registry: versions of adapters and pointers to them; every change writes its event in its transaction."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from graftwork.access import events
from graftwork.access.clock import Clock, timestamp, utc_now
from graftwork.access.events import Event
from graftwork.access.names import check_name, is_name
from graftwork.access.tenants import check_tenant
from graftwork.artifacts.bundle import Manifest
from graftwork.artifacts.digest import check_digest
from graftwork.db import Database, Transaction
from graftwork.errors import InvalidRequest, NotFound, meant
from graftwork.registry import adapters, pointers, versions
from graftwork.registry.adapters import AdapterSummary
from graftwork.registry.changes import apply
from graftwork.registry.idempotency import Once, once_only
from graftwork.registry.page import Page, check_page_size
from graftwork.registry.past import Pointer, aliases_in, moves_of, pointers_in, until, view_at
from graftwork.registry.reading import find, nowhere, parsed, view_for, view_of, whole
from graftwork.registry.reference import Reference, Sequence
from graftwork.registry.registration import register
from graftwork.registry.resolving import resolve
from graftwork.registry.search.indexing import NOTHING, Described
from graftwork.registry.semantic_version import parse_semver
from graftwork.registry.subjects import subject_of
from graftwork.registry.versions import Version, frozen_json

MAX_METADATA_BYTES = 1 << 18
MAX_ACCOUNT_BYTES = 1 << 26


class Registry:
    """Reads and changes one database's versions; many threads and many processes may do so at once.

    Methods that take a reference take text or a parsed one. Any of them raises InvalidRequest for malformed
    names or references, NotFound for what is not there or belongs to another tenant, Unavailable when the
    database is busy for too long. With `once`, a change is made once: the same request again is answered as the
    first was, and Conflict when the key was another request's.
    """

    def __init__(self, database: Database, clock: Clock = utc_now) -> None:
        self._database = database
        self._clock = clock

    # Versions

    def push(
        self,
        tenant: str,
        name: str,
        manifest: Manifest,
        *,
        semver: str | None = None,
        kind: str,
        base: str,
        base_digest: str,
        rank: int,
        bytes: int,
        account: Mapping[str, Any],
        semantic_digest: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        said: Mapping[str, Any] | None = None,
        described: Described = NOTHING,
        actor: str,
        once: Once | None = None,
        still_stored: Callable[[Transaction], None] = lambda _: None,
    ) -> tuple[Version, bool]:
        """Register a version whose blobs are all stored; True when it is new.

        The same bytes again are the existing version, whose metadata stays as it was. Without `semver` the
        version is the highest release plus one in the last place, `1.0.0` at first. Searches also find it by what its
        files say of it (`described`).

        Args:
            said: what of the metadata somebody said, where some of it was filled in; else all of it.
            still_stored: called in the transaction before a row is written; raises where blobs are gone.

        Raises:
            Conflict: the bytes have another version number or other metadata under this name, or were accounted
                against another base; or the version number has other bytes; or the metadata say that it comes from
                itself.
            NotFound: a parent that the metadata name is no version of this tenant.
        """
        version = Version(
            tenant=check_tenant(tenant),
            adapter=check_name(name, what="adapter"),
            semver=parse_semver(semver) if semver is not None else "",
            sequence=0,
            digest=manifest.digest(),
            manifest=manifest,
            stage="development",
            kind=kind,
            base=base,
            base_digest=check_digest(base_digest),
            rank=rank,
            bytes=bytes,
            semantic_digest=semantic_digest,
            metadata=frozen_json(metadata or {}, what="metadata", max_bytes=MAX_METADATA_BYTES),
            account=frozen_json(account, what="account", max_bytes=MAX_ACCOUNT_BYTES),
            created_at=self._now(),
            created_by=actor,
        )

        def change() -> tuple[Version, bool]:
            still_stored(tx)
            return register(tx, version, described, said=(metadata or {}) if said is None else said)

        with self._database.transaction() as tx:
            return once_only(tx, version.tenant, once, change, now=self._clock())

    def list_adapters(
        self, tenant: str, *, page_size: int = 100, page_token: str | None = None
    ) -> Page[AdapterSummary]:
        """A tenant's adapters by name; pass `next_page_token` on to get the next ones."""
        check_page_size(page_size)
        if page_token and not is_name(page_token):
            raise InvalidRequest("page_token is not one that a list gave out.", field="page_token")
        with self._database.reading() as tx:
            found = adapters.summaries(tx, tenant, after=page_token or "", limit=page_size + 1)
        more = len(found) > page_size
        return Page(tuple(found[:page_size]), found[page_size - 1].name if more else None)

    def list_versions(self, tenant: str, name: str) -> list[Version]:
        """An adapter's versions without metadata and account, the newest first."""
        with self._database.reading() as tx:
            return list(reversed(view_of(tx, tenant, name).versions))

    def has_digest(self, tenant: str, digest: str) -> bool:
        """Whether any adapter of this tenant has a version with this digest."""
        with self._database.reading() as tx:
            return versions.has_digest(tx, tenant, digest)

    def position(self) -> int:
        """Of the last event, over all tenants."""
        with self._database.reading() as tx:
            return events.head(tx)

    def show(self, tenant: str, reference: Reference | str, *, at: str | None = None) -> Version:
        """The version that a reference names, with its metadata and its account.

        Args:
            at: what it named at that time and how the version stood then, by the log; as `timestamp` writes it.
        """
        wanted = parsed(reference)
        with self._database.reading() as tx:
            if at is None:
                return whole(tx, resolve(tx, tenant, wanted))
            view = view_for(tx, tenant, wanted)
            found = find(tx, view_at(tx, view, at), wanted)
            if view.find(Sequence(found.sequence)) is None:  # though its bytes may have been pushed again
                raise NotFound(f"{found.label} has been deleted since; `graftwork history {view.name}` tells of it.")
            return versions.version_at(tx, found.tenant, found.adapter, found.sequence).with_state(found.state())

    def resolve(self, tenant: str, reference: Reference | str) -> Version:
        """Which version that is: without metadata and account, which may be long, and without what was said of it."""
        wanted = parsed(reference)
        with self._database.reading() as tx:
            return resolve(tx, tenant, wanted)

    # Pointers

    def set_alias(
        self,
        tenant: str,
        name: str,
        alias: str,
        target: Reference | str,
        *,
        expected: str | None = None,
        actor: str,
        reason: str | None = None,
    ) -> Version:
        """Point an alias at a version; no event when it points there already.

        Args:
            expected: the digest it must point at now, ABSENT for nowhere, PRESENT for somewhere, or None for either.

        Raises:
            PreconditionFailed: it does not point where you expected.
            Conflict: `@production` of a version that is not in production (promote it), or `@previous`.
        """
        check_name(alias, what="alias")
        wanted = parsed(target)
        if wanted.name != name:
            example = f"{name}:{wanted.name if wanted.name[0].isdigit() else '1.0.0'}"
            raise InvalidRequest(
                f"An alias of {name} cannot point at {wanted}, a version of {wanted.name}: write {example}.",
                field="target",
            )
        with self._database.transaction() as tx:
            view = view_for(tx, tenant, wanted)
            found = find(tx, view, wanted)
            change = pointers.plan_alias(view.aliases, alias, found, expected=expected)
            apply(tx, view, change, actor=actor, reason=reason, at=self._now())
            return whole(tx, found)

    def remove_alias(
        self,
        tenant: str,
        name: str,
        alias: str,
        *,
        expected: str | None = None,
        actor: str,
        reason: str | None = None,
    ) -> None:
        """Take an alias away; raises as `set_alias`, and NotFound where there is none."""
        check_name(alias, what="alias")
        with self._database.transaction() as tx:
            view = view_of(tx, tenant, name)
            change = pointers.plan_removal(view.aliases, alias, expected=expected)
            apply(tx, view, change, actor=actor, reason=reason, at=self._now())

    def promote(
        self,
        tenant: str,
        reference: Reference | str,
        *,
        actor: str,
        reason: str | None = None,
        once: Once | None = None,
    ) -> Version:
        """Make a version the one a bare name means; the one it replaces is archived and is `@previous`.

        Nothing happens, and no event is written, when it is that already.

        Raises:
            Forbidden: the policy demands what it lacks.
        """
        wanted = parsed(reference)

        def change() -> tuple[Version, bool]:
            view = view_for(tx, tenant, wanted)
            found = find(tx, view, wanted)
            step = pointers.plan_promote(view.aliases, found, view.standing.policy)
            apply(tx, view, step, actor=actor, reason=reason, at=self._now())
            return whole(tx, found), False

        with self._database.transaction() as tx:
            return once_only(tx, tenant, once, change, now=self._clock())[0]

    def rollback(
        self, tenant: str, name: str, *, actor: str, reason: str | None = None, once: Once | None = None
    ) -> Version:
        """Move `@production` one step back along the log and return the version it names now.

        Raises:
            Conflict: there is no earlier production version.
            Forbidden: the policy demands what that one lacks.
        """

        def change() -> tuple[Version, bool]:
            view = view_of(tx, tenant, name)
            by_sequence = {version.sequence: version for version in view.versions}
            trail = pointers.production_trail(events.read_events(tx, tenant, subject_of(name)))
            passed = [by_sequence[sequence] for sequence in pointers.live_trail(trail, by_sequence)]
            step = pointers.plan_rollback(view.aliases, passed, view.standing.policy)
            apply(tx, view, step, actor=actor, reason=reason, at=self._now())
            return whole(tx, passed[-2]), False

        with self._database.transaction() as tx:
            return once_only(tx, tenant, once, change, now=self._clock())[0]

    def aliases(self, tenant: str, name: str, *, at: str | None = None) -> list[Pointer]:
        """Where an adapter's aliases point, by name, and since when; or where they did at a time."""
        found = pointers_in(name, until(self.history(tenant, name), at))
        return [found[alias] for alias in sorted(found)]

    def alias(self, tenant: str, name: str, alias: str, *, at: str | None = None) -> Pointer:
        """One of them.

        Raises:
            NotFound: there is none, or was none then.
        """
        for pointer in self.aliases(tenant, name, at=at):
            if pointer.alias == alias:
                return pointer
        check_name(alias, what="alias")
        raise NotFound(f"There {'is' if at is None else 'was'} no alias {name}@{alias}{f' at {at}' if at else ''}.")

    def history(self, tenant: str, name: str, *, alias: str | None = None) -> list[Event]:
        """Every event about an adapter, the oldest first; or only those that moved one of its aliases.

        Also of one that was deleted.

        Raises:
            NotFound: it never had such an alias.
        """
        check_name(name, what="adapter")
        with self._database.reading() as tx:
            if adapters.last_sequence(tx, tenant, name) is None:
                raise nowhere(name)
            found = events.read_events(tx, tenant, subject_of(name))
        if alias is None:
            return found
        if not (moves := moves_of(found, check_name(alias, what="alias"))):
            raise NotFound(f"{name} never had an alias {alias}. {meant(alias, aliases_in(found))}")
        return moves

    def _now(self) -> str:
        return timestamp(self._clock())

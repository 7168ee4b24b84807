"""Deletions: versions and whole adapters go, unless somebody needs them; what they were stays in the log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from graftwork.access import events
from graftwork.access.clock import Clock, timestamp, utc_now
from graftwork.db import Database, Transaction
from graftwork.registry import aliases, versions
from graftwork.registry.adapters import undescribe
from graftwork.registry.reading import find, parsed, view_for, view_of
from graftwork.registry.reference import Newest, whole_adapter
from graftwork.registry.retention import holders
from graftwork.registry.retention.claims import claims_of, derivations, without_own
from graftwork.registry.retention.holders import (
    HOLDERS,
    HOLDERS_OF_ADAPTER,
    Claims,
    Holder,
    HolderRule,
    ReadHolders,
    holders_of,
    refuse_held,
)
from graftwork.registry.retention.rules import drop_rules
from graftwork.registry.rules import policies
from graftwork.registry.search.indexing import forget
from graftwork.registry.subjects import ADAPTER_DELETED, VERSION_DELETED, subject_of
from graftwork.registry.versions import Version


def nobody(_: Claims, _version: Version) -> Iterable[Holder]:
    """Where only the database knows who needs a version."""
    return ()


class Deletions:
    """Deletes from one database. Bytes stay until they are collected; see `collector.py`.

    Args:
        others: read who needs versions beside those that the registry knows of.
    """

    def __init__(self, database: Database, clock: Clock = utc_now, others: Sequence[ReadHolders] = ()) -> None:
        self._database, self._clock, self._others = database, clock, others

    def delete(
        self, tenant: str, reference: str, *, actor: str, reason: str | None = None, also: HolderRule = nobody
    ) -> Version:
        """Delete one version, whose number is never given again, and return it as it was.

        Args:
            also: who needs versions that the database does not know of.

        Raises:
            NotFound: there is no such version. Held: somebody needs it, and who does.
            InvalidRequest: a bare name: as a model it means one version, and as what is deleted all of them.
        """
        wanted = parsed(reference)
        with self._database.transaction() as tx:
            view = view_for(tx, tenant, wanted)
            if isinstance(wanted.selector, Newest):
                raise whole_adapter(wanted.name)
            found = find(tx, view, wanted)
            claims = claims_of(tx, view, derivations(tx, tenant))
            others = [read(tx, tenant) for read in self._others]
            refuse_held(found.label, holders_of(claims, found, (*HOLDERS, also, *others)))
            delete_version(tx, found, actor=actor, reason=reason, at=timestamp(self._clock()))
            return found

    def delete_adapter(
        self,
        tenant: str,
        name: str,
        *,
        actor: str,
        reason: str | None = None,
        in_production: bool = False,
        also: HolderRule = nobody,
    ) -> list[Version]:
        """Delete an adapter with all its versions and aliases, and return the versions as they were.

        A later push under the name goes on counting where this one stopped.

        Args:
            in_production: also when it is in production: its name then answers nothing any more.

        Raises:
            NotFound: there is no such adapter. Held: somebody needs one of its versions, and who does.
        """
        rules = [rule for rule in HOLDERS_OF_ADAPTER if not (in_production and rule is holders.production)]
        with self._database.transaction() as tx:
            view = view_of(tx, tenant, name)
            claims = without_own(claims_of(tx, view, derivations(tx, tenant)))
            rules += [also, *(read(tx, tenant) for read in self._others)]
            refuse_held(name, [one for found in view.versions for one in holders_of(claims, found, rules)])
            at = timestamp(self._clock())
            for alias, found in view.aliases.items():
                aliases.move(tx, tenant, name, alias, before=found.sequence, after=None, at=at, actor=actor)
            for found in view.versions:
                delete_version(tx, found, actor=actor, reason=reason, at=at)
            forget(tx, tenant, name, 0)  # its own tags and words: a later adapter of this name is another one
            undescribe(tx, tenant, name)
            drop_rules(tx, tenant, name, actor=actor, at=at)
            policies.put(tx, tenant, name, None, actor=actor, reason=reason, at=at)
            gone = {alias: found.brief() for alias, found in view.aliases.items()}
            payload = {"name": name, "versions": len(view.versions), "aliases": gone, "reason": reason}
            events.append(tx, tenant, actor, ADAPTER_DELETED, subject_of(name), payload, at=at)
            return list(view.versions)


def delete_version(tx: Transaction, version: Version, *, actor: str, reason: str | None, at: str) -> None:
    """Mark a version that nobody needs, and tell the log all that it was but its files."""
    versions.mark_deleted(tx, version, at=at)
    forget(tx, version.tenant, version.adapter, version.sequence)
    facts = ("stage", "kind", "rank", "base", "base_digest", "bytes", "created_at", "created_by")
    payload = {**version.brief(), **{fact: getattr(version, fact) for fact in facts}, "reason": reason}
    events.append(tx, version.tenant, actor, VERSION_DELETED, subject_of(version.adapter), payload, at=at)

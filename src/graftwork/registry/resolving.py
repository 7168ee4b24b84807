"""Resolving: the version that a reference means, read from the database by its indexes, however many there are."""

from __future__ import annotations

from sqlalchemy import Select, and_, func, select
from sqlalchemy.sql import ColumnElement

from graftwork.access.names import check_name
from graftwork.db import Transaction
from graftwork.db.schema import versions
from graftwork.registry.aliases import aliases_of
from graftwork.registry.pointers import PRODUCTION
from graftwork.registry.reading import missing, nowhere, parsed
from graftwork.registry.reference import BEYOND_HEX, Alias, Digest, Newest, Reference, Semver, Sequence
from graftwork.registry.versions import LIGHT, LIVE, Version


def resolve(tx: Transaction, tenant: str, wanted: Reference | str) -> Version:
    """The version with its aliases, without metadata and account; as `AdapterView.find` would find it.

    Raises:
        NotFound: this tenant has no such adapter or version, or a digest prefix fits several.
    """
    reference = parsed(wanted)
    name = check_name(reference.name, what="adapter")
    if reference.tenant not in (None, tenant):
        raise nowhere(f"{reference.tenant}/{name}")
    pointers = aliases_of(tx, tenant, [name]).get(name, {})
    own = and_(versions.c.tenant == tenant, versions.c.adapter == name, LIVE)
    rows = tx.execute(select(*LIGHT).where(own, _selected(reference, pointers, own)).limit(2)).all()
    if len(rows) != 1:
        raise missing(tx, tenant, reference)
    version = Version.from_row(rows[0])
    return version.with_aliases(alias for alias, sequence in pointers.items() if sequence == version.sequence)


def still(tx: Transaction, version: Version) -> Version:
    """A version that was read before; raises NotFound where it has gone meanwhile."""
    return resolve(tx, version.tenant, f"{version.adapter}@{version.digest}")


def _selected(reference: Reference, pointers: dict[str, int], own: ColumnElement[bool]) -> ColumnElement[bool]:
    sequence = versions.c.sequence
    match reference.selector:
        case Semver(version):
            return versions.c.semver == version
        case Digest(prefix):
            return and_(versions.c.digest >= prefix, versions.c.digest < prefix + BEYOND_HEX)
        case Sequence(number):
            return sequence == number
        case Alias(alias):
            return sequence == pointers.get(alias, 0)
        case Newest() if PRODUCTION in pointers:
            return sequence == pointers[PRODUCTION]
    newest: Select[tuple[int]] = select(func.max(sequence)).where(own)
    return sequence == newest.scalar_subquery()

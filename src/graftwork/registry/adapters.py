"""Adapters: the named things that have versions; and their SQL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Row, and_, bindparam, select, update

from graftwork.db import Transaction
from graftwork.db.schema import adapters, versions
from graftwork.errors import Conflict
from graftwork.registry.aliases import aliases_of
from graftwork.registry.pointers import PRODUCTION
from graftwork.registry.rules.standing import Standing, standings_at
from graftwork.registry.versions import LIVE, Version, counts, versions_at


@dataclass(frozen=True)
class AdapterSummary:
    """One line of a list: an adapter with its newest version and the one in production."""

    tenant: str
    name: str
    versions: int  #: how many there are
    newest: Version
    production: Version | None
    created_at: str
    created_by: str
    display_name: str
    description: str

    def to_json(self) -> dict[str, Any]:
        return {
            **self.__dict__,
            "newest": self.newest.to_json(),
            "production": self.production.to_json() if self.production else None,
        }


def last_sequence(tx: Transaction, tenant: str, name: str) -> int | None:
    """Sequence number of the latest push; None where there is no such adapter."""
    query = select(adapters.c.last_sequence).where(adapters.c.tenant == tenant, adapters.c.name == name)
    found: int | None = tx.execute(query).scalar()
    return found


def insert(tx: Transaction, tenant: str, name: str, *, at: str, actor: str) -> None:
    row = {"tenant": tenant, "name": name, "last_sequence": 0, "created_at": at, "created_by": actor}
    tx.execute(adapters.insert().values(row))


def take_sequence(tx: Transaction, tenant: str, name: str, last: int) -> int:
    """Count the adapter's sequence on from `last`, by compare-and-swap; numbers are never given twice.

    Raises:
        Conflict: another push took the number meanwhile.
    """
    where = and_(adapters.c.tenant == tenant, adapters.c.name == name, adapters.c.last_sequence == last)
    if tx.execute(update(adapters).where(where).values(last_sequence=last + 1)).rowcount != 1:
        raise Conflict(f"Another push of {name} took the number {last + 1}; push again.")
    return last + 1


def summaries(tx: Transaction, tenant: str, *, after: str, limit: int) -> list[AdapterSummary]:
    """A tenant's adapters that have versions, by name, from the first one after `after`."""
    query = select(adapters).where(adapters.c.tenant == tenant, adapters.c.name > after, has_versions())
    rows = tx.execute(query.order_by(adapters.c.name).limit(limit)).all()
    names = [row.name for row in rows]
    counted, pointers = counts(tx, tenant, names), aliases_of(tx, tenant, names)
    wanted = {(name, newest) for name, (_, newest) in counted.items()}
    wanted |= {(name, held[PRODUCTION]) for name, held in pointers.items() if PRODUCTION in held}
    found = {(version.adapter, version.sequence): version for version in versions_at(tx, tenant, wanted)}
    standings = standings_at(tx, tenant, wanted)
    return [
        _summary(row, counted[row.name], found, pointers.get(row.name, {}), standings.of(tenant, row.name))
        for row in rows
    ]


def undescribe(tx: Transaction, tenant: str, name: str) -> None:
    """Take away what somebody said of an adapter."""
    own = and_(adapters.c.tenant == tenant, adapters.c.name == name)
    tx.execute(update(adapters).where(own).values(display_name="", description=""))


def has_versions() -> ColumnElement[bool]:
    """Of a row of adapters: what was deleted with all its versions keeps its row, and its numbers."""
    own = and_(versions.c.tenant == adapters.c.tenant, versions.c.adapter == adapters.c.name)
    return select(versions.c.sequence).where(own, LIVE).exists()


_ONE = select(adapters.c.name).where(
    adapters.c.tenant == bindparam("of"), adapters.c.name == bindparam("called"), has_versions()
)


def has_adapter(tx: Transaction, tenant: str, name: str) -> bool:
    """Whether an adapter of this tenant is called so, and has versions."""
    return tx.execute(_ONE, {"of": tenant, "called": name}).first() is not None


def _summary(
    row: Row[Any],
    counted: tuple[int, int],
    found: Mapping[tuple[str, int], Version],
    pointers: Mapping[str, int],
    standing: Standing,
) -> AdapterSummary:
    def shown(sequence: int) -> Version:
        held = [alias for alias, target in pointers.items() if target == sequence]
        return standing.of(found[row.name, sequence].with_aliases(held))

    number, newest = counted
    return AdapterSummary(
        tenant=row.tenant,
        name=row.name,
        versions=number,
        newest=shown(newest),
        production=shown(pointers[PRODUCTION]) if PRODUCTION in pointers else None,
        created_at=row.created_at,
        created_by=row.created_by,
        display_name=row.display_name,
        description=row.description,
    )

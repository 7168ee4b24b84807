"""Owners: which set of documents a resource was applied with, so that pruning takes away nothing else; SQL."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import delete, select

from graftwork.db import Transaction
from graftwork.db.schema import applied_resources

Key = tuple[str, str]


@dataclass(frozen=True)
class Owner:
    """The set, and the digest of the spec that it left."""

    set: str
    digest: str


def owners_of(tx: Transaction, tenant: str) -> dict[Key, Owner]:
    """By kind and name; also of what others have taken away meanwhile."""
    rows = tx.execute(select(applied_resources).where(applied_resources.c.tenant == tenant))
    return {(row.kind, row.name): Owner(row.applied_set, row.digest) for row in rows}


def own(tx: Transaction, tenant: str, key: Key, owner: Owner, *, at: str) -> None:
    disown(tx, tenant, [key])
    row = {"tenant": tenant, "kind": key[0], "name": key[1], "applied_set": owner.set, "digest": owner.digest}
    tx.execute(applied_resources.insert().values(**row, applied_at=at))


def disown(tx: Transaction, tenant: str, keys: Iterable[Key]) -> None:
    table = applied_resources
    for kind, name in keys:
        tx.execute(delete(table).where(table.c.tenant == tenant, table.c.kind == kind, table.c.name == name))

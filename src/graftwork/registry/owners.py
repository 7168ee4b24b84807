"""Owners: which set of documents a resource was applied with, so that pruning takes away nothing else; SQL.

A resource is of its set until it is removed, by whomever: who removes one disowns it, in the same transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from sqlalchemy import bindparam, delete, select

from graftwork.db import Transaction
from graftwork.db.schema import applied_resources

Key = tuple[str, str]  #: kind, as documents write it, and name
#: Kinds whose services disown by themselves; those of what is set in revisions are their `Kind.title`.
GRANT: Final = "Grant"
POLICY: Final = "Policy"
RETENTION: Final = "Retention"
WEBHOOK: Final = "Webhook"
_DISOWN = delete(applied_resources).where(
    applied_resources.c.tenant == bindparam("of"),
    applied_resources.c.kind == bindparam("kinds"),
    applied_resources.c.name == bindparam("names"),
)


@dataclass(frozen=True)
class Owner:
    """The set, and the digest of the spec that it left."""

    set: str
    digest: str


def grant_name(grantee: str, pattern: str) -> str:
    """What a grant is called here, which has no name: there is one of a pattern to a tenant."""
    return f"{grantee}/{pattern}"


def owners_of(tx: Transaction, tenant: str) -> dict[Key, Owner]:
    """By kind and name."""
    rows = tx.execute(select(applied_resources).where(applied_resources.c.tenant == tenant))
    return {(row.kind, row.name): Owner(row.applied_set, row.digest) for row in rows}


def own(tx: Transaction, tenant: str, owners: Mapping[Key, Owner], *, at: str) -> None:
    disown(tx, tenant, owners)
    rows = [
        {"tenant": tenant, "kind": kind, "name": name, "applied_set": one.set, "digest": one.digest, "applied_at": at}
        for (kind, name), one in owners.items()
    ]
    if rows:
        tx.execute(applied_resources.insert(), rows)


def disown(tx: Transaction, tenant: str, keys: Iterable[Key]) -> None:
    """Let them be of no set; nothing where they are of none."""
    if told := [{"of": tenant, "kinds": kind, "names": name} for kind, name in keys]:
        tx.execute(_DISOWN, told)

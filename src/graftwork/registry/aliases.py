"""Aliases: the SQL of the names that move between an adapter's versions, always by compare-and-swap."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import and_, delete, select, update
from sqlalchemy.exc import IntegrityError

from graftwork.db import Transaction
from graftwork.db.schema import aliases
from graftwork.errors import PreconditionFailed


def all_aliases(tx: Transaction) -> dict[tuple[str, str], dict[str, int]]:
    """Every (tenant, adapter)'s aliases with the sequence number each points to."""
    found: dict[tuple[str, str], dict[str, int]] = {}
    for row in tx.execute(select(aliases.c.tenant, aliases.c.adapter, aliases.c.alias, aliases.c.sequence)):
        found.setdefault((row.tenant, row.adapter), {})[row.alias] = row.sequence
    return found


def aliases_of(tx: Transaction, tenant: str, adapters: Iterable[str]) -> dict[str, dict[str, int]]:
    """The same of some adapters of one tenant, by adapter name; those without aliases are left out."""
    found: dict[str, dict[str, int]] = {}
    query = select(aliases.c.adapter, aliases.c.alias, aliases.c.sequence).where(
        aliases.c.tenant == tenant, aliases.c.adapter.in_(list(adapters))
    )
    for row in tx.execute(query):
        found.setdefault(row.adapter, {})[row.alias] = row.sequence
    return found


def move(
    tx: Transaction,
    tenant: str,
    adapter: str,
    alias: str,
    *,
    before: int | None,
    after: int | None,
    at: str,
    actor: str,
) -> None:
    """Move an alias from one sequence number to another; None means that it is not there.

    Raises:
        PreconditionFailed: it is no longer at `before`.
    """
    where = and_(aliases.c.tenant == tenant, aliases.c.adapter == adapter, aliases.c.alias == alias)
    stamp = {"updated_at": at, "updated_by": actor}
    if before is None:
        row = {"tenant": tenant, "adapter": adapter, "alias": alias, "sequence": after, **stamp}
        try:
            tx.execute(aliases.insert().values(row))
        except IntegrityError as exc:
            raise PreconditionFailed(f"The alias {adapter}@{alias} was set meanwhile; look again.") from exc
        return
    where = and_(where, aliases.c.sequence == before)
    change = delete(aliases) if after is None else update(aliases).values(sequence=after, **stamp)
    if tx.execute(change.where(where)).rowcount != 1:
        raise PreconditionFailed(f"The alias {adapter}@{alias} moved meanwhile; look again.")

"""described: the versions behind nodes, as they are named, staged and aliased now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select

from graftwork.db import Transaction
from graftwork.db.schema import versions
from graftwork.registry.aliases import aliases_of
from graftwork.registry.lineage.nodes import Node
from graftwork.registry.versions import LIVE, Version

#: Digests per query, well within what SQLite binds.
_AT_ONCE = 1000


@dataclass(frozen=True)
class Registered:
    """One registration of a version's bytes."""

    adapter: str
    version: str
    stage: str
    aliases: tuple[str, ...]
    created_at: str
    created_by: str

    def to_json(self) -> dict[str, Any]:
        return {**self.__dict__, "aliases": list(self.aliases)}


@dataclass(frozen=True)
class Described:
    """A node, and of a version under which names its bytes are registered: none where all were deleted.

    The first is the one that was asked for, then come others of that adapter, then the rest, in the order of pushes.
    """

    node: Node
    versions: tuple[Registered, ...] = ()

    @property
    def label(self) -> str:
        """What people call it: `tone:1.4.0` where a version's bytes are registered, else the node as it is written."""
        return f"{self.versions[0].adapter}:{self.versions[0].version}" if self.versions else str(self.node)

    def to_json(self) -> dict[str, Any]:
        return {
            "id": str(self.node),
            "kind": self.node.kind,
            "name": self.node.name,
            "digest": self.node.digest or None,
            "versions": [one.to_json() for one in self.versions],
        }


def describe(tx: Transaction, tenant: str, nodes: Iterable[Node], asked: Iterable[Version] = ()) -> list[Described]:
    """The nodes in their order, with their versions.

    Args:
        asked: versions that somebody named, in the order of naming: the same bytes may have more names than theirs.
    """
    nodes = list(nodes)
    registered = _registered(tx, tenant, [node.name for node in nodes if node.kind == "version"], list(asked))
    return [Described(node, registered.get(node.name, ()) if node.kind == "version" else ()) for node in nodes]


def _registered(
    tx: Transaction, tenant: str, digests: list[str], asked: list[Version]
) -> Mapping[str, tuple[Registered, ...]]:
    table = versions.c
    columns = (table.digest, table.adapter, table.semver, table.stage, table.sequence, table.created_at)
    rows: list[Any] = []
    for begin in range(0, len(digests), _AT_ONCE):
        query = select(*columns, table.created_by).where(
            table.tenant == tenant, LIVE, table.digest.in_(digests[begin : begin + _AT_ONCE])
        )
        rows += tx.execute(query).all()
    named, families = {(one.adapter, one.sequence) for one in asked}, {one.adapter for one in asked}
    # Here: asked to sort, SQLite would read all versions in that order.
    rows.sort(
        key=lambda row: (
            (row.adapter, row.sequence) not in named,
            row.adapter not in families,
            row.created_at,
            row.adapter,
            row.sequence,
        )
    )
    pointers = aliases_of(tx, tenant, {row.adapter for row in rows})
    found: dict[str, tuple[Registered, ...]] = {}
    for row in rows:
        held = sorted(alias for alias, at in pointers.get(row.adapter, {}).items() if at == row.sequence)
        one = Registered(row.adapter, row.semver, row.stage, tuple(held), row.created_at, row.created_by)
        found[row.digest] = (*found.get(row.digest, ()), one)
    return found

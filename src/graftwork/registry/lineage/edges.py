"""edges: the SQL that writes and finds nodes and edges; nothing is ever changed or taken away."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, and_, func, select

from graftwork.db import Transaction
from graftwork.db.schema import lineage_edges, lineage_nodes
from graftwork.errors import Conflict
from graftwork.registry.lineage.closure import path
from graftwork.registry.lineage.described import describe
from graftwork.registry.lineage.nodes import Node, version_node
from graftwork.registry.lineage.roles import ROLES, Edge
from graftwork.registry.versions import Version

#: Edges of a cycle that a message names.
_SHOWN = 6


@dataclass(frozen=True)
class Origin:
    """Whose edge, who says so, and when."""

    tenant: str
    actor: str
    at: str  #: RFC 3339, UTC, microseconds


def nodes_like(tx: Transaction, tenant: str, node: Node) -> list[Node]:
    """The node where the graph has it; without a digest, all of that name, at most 1000."""
    columns = (lineage_nodes.c.kind, lineage_nodes.c.name, lineage_nodes.c.digest)
    where = _named(tenant, node.kind, node.name)
    if node.digest:
        where = and_(where, lineage_nodes.c.digest == node.digest)
    query = select(*columns).where(where).order_by(lineage_nodes.c.digest).limit(1000)
    return [Node(*row) for row in tx.execute(query)]


def number_of(tx: Transaction, tenant: str, node: Node) -> int | None:
    """The number that edges name this very node by; None where the graph does not have it."""
    where = and_(_named(tenant, node.kind, node.name), lineage_nodes.c.digest == node.digest)
    found: int | None = tx.execute(select(lineage_nodes.c.number).where(where)).scalar()
    return found


def add_edge(tx: Transaction, edge: Edge, origin: Origin, asked: Sequence[Version] = ()) -> Origin | None:
    """Write an edge, and its ends where they are new; whose it is where it is there already.

    Code that was changed since its commit stands on the commit.

    Args:
        asked: the versions that somebody named at its ends, for messages in his words.

    Raises:
        Conflict: it would close a cycle, which is named.
    """
    target, _ = _ensure(tx, edge.target, origin)
    source, new = _ensure(tx, edge.source, origin)
    if (known := _known(tx, origin.tenant, source, edge.role, target)) is not None:
        return known
    if not new:  # on what is new stands nothing
        _check_no_cycle(tx, origin.tenant, edge, asked)
    stamp = {"tenant": origin.tenant, "created_at": origin.at, "created_by": origin.actor}
    tx.execute(lineage_edges.insert().values(source=source, role=edge.role, target=target, **stamp))
    return None


def _ensure(tx: Transaction, node: Node, origin: Origin) -> tuple[int, bool]:
    """The node's number, and whether it is new."""
    if (number := number_of(tx, origin.tenant, node)) is not None:
        return number, False
    newest = select(func.coalesce(func.max(lineage_nodes.c.number), 0)).where(lineage_nodes.c.tenant == origin.tenant)
    number = int(tx.execute(newest).scalar_one()) + 1  # nobody else writes meanwhile
    row = {"kind": node.kind, "name": node.name, "digest": node.digest, "created_at": origin.at}
    tx.execute(lineage_nodes.insert().values(tenant=origin.tenant, number=number, **row))
    if node.clean is not None:
        add_edge(tx, Edge(node, "derived_from", node.clean), origin)
    return number, True


def _known(tx: Transaction, tenant: str, source: int, role: str, target: int) -> Origin | None:
    table = lineage_edges.c
    where = and_(table.tenant == tenant, table.source == source, table.role == role, table.target == target)
    row = tx.execute(select(table.created_by, table.created_at).where(where)).first()
    return Origin(tenant, *row) if row is not None else None


def _check_no_cycle(tx: Transaction, tenant: str, edge: Edge, asked: Sequence[Version]) -> None:
    if not ROLES[edge.role].carries:
        return
    if edge.source == edge.target:
        raise Conflict(_itself(edge, list(dict.fromkeys(one.label for one in asked))))
    if way := path(tx, tenant, edge.target, edge.source):
        ends = dict.fromkeys(node for one in way for node in (one.source, one.target))
        called = {described.node: described.label for described in describe(tx, tenant, ends, asked)}
        called |= {version_node(one.digest): one.label for one in reversed(asked)}  # also of one that is being pushed
        told = [f"{called[one.source]} is {one.role} {called[one.target]}" for one in way]
        more = f" and {len(told) - _SHOWN} more" if len(told) > _SHOWN else ""
        raise Conflict(
            f"{called[edge.source]} cannot be {edge.role} {called[edge.target]}, that would close a cycle: "
            f"{', '.join(told[:_SHOWN])}{more}."
        )


def _itself(edge: Edge, names: Sequence[str]) -> str:
    if len(names) > 1:
        return f"{names[0]} cannot be {edge.role} {names[1]}: they are the same bytes, and nothing comes from itself."
    return f"{names[0] if names else edge.source} cannot be {edge.role} itself."


def _named(tenant: str, kind: str, name: str) -> ColumnElement[bool]:
    return and_(lineage_nodes.c.tenant == tenant, lineage_nodes.c.kind == kind, lineage_nodes.c.name == name)

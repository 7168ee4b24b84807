"""closure: everything that stands on a node, at any depth, by one recursive query each.

`reach` follows edges from TO to FROM. Behind an edge whose role does not carry (`roles.py`) it does not go on. Each
node is visited once where no depth is given (the recursion counts none, so that rows are equal and UNION drops
them), and once per distance where one is. On top of that lies what moves: a version that `@production` names now is
served by the route of its adapter's name, where that has no rules of its own; others are served as `Endpoints` say; and
applications use routes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import text

from graftwork.db import Transaction
from graftwork.registry.lineage.endpoints import NONE, Endpoints
from graftwork.registry.lineage.nodes import Node
from graftwork.registry.lineage.roles import LEAVES, Edge

_LEAVES = ", ".join(f"'{role}'" for role in LEAVES)
#: Any digest lies between the two; a node that is asked for without one means all that have its name.
_ANY = ("", "~")

_REACH = f"""
WITH RECURSIVE
roots(node) AS (
    SELECT number FROM lineage_nodes
    WHERE tenant = :tenant AND kind = :root_kind AND name = :root_name AND digest BETWEEN :low AND :high
),
reach(node, depth, open) AS (
    SELECT node, 0, 1 FROM roots
    UNION
    SELECT e.source, r.depth + :step, CASE WHEN e.role IN ({_LEAVES}) THEN 0 ELSE 1 END
    FROM reach r JOIN lineage_edges e ON e.tenant = :tenant AND e.target = r.node
    WHERE r.open = 1 AND r.depth < :depth
)
"""
#: What makes a node's name comparable with a version's digest: PostgreSQL finds that by its index only in the order
#: that the column is kept in, and names are kept bytewise.
_AS_DIGEST = {"sqlite": "", "postgresql": 'COLLATE "default"'}
#: What `Endpoints.parameters` are as rows; names are kept bytewise.
_ENDPOINTS = {
    "sqlite": """
served(route, digest) AS (SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(:served)),
ruled(route) AS (SELECT value FROM json_each(:ruled)),
""",
    "postgresql": """
served(route, digest) AS (
    SELECT (value ->> 0) COLLATE "C", (value ->> 1) COLLATE "C" FROM jsonb_array_elements(CAST(:served AS jsonb))
),
ruled(route) AS (SELECT value COLLATE "C" FROM jsonb_array_elements_text(CAST(:ruled AS jsonb))),
""",
}
# CROSS JOIN: SQLite keeps this order, from the few to their rows.
_IMPACT = {
    dialect: f"""
{_REACH},
{_ENDPOINTS[dialect]}
live(route, depth) AS (
    SELECT v.adapter, r.depth + :step
    FROM reach r
    CROSS JOIN lineage_nodes n
    CROSS JOIN versions v
    CROSS JOIN aliases a
    WHERE r.open = 1 AND r.depth < :depth
      AND n.tenant = :tenant AND n.number = r.node AND n.kind = 'version'
      AND v.tenant = :tenant AND v.digest = n.name {as_digest}
      AND a.tenant = :tenant AND a.adapter = v.adapter AND a.alias = 'production' AND a.sequence = v.sequence
      AND v.adapter NOT IN (SELECT route FROM ruled)
    UNION
    SELECT s.route, r.depth + :step
    FROM reach r
    CROSS JOIN lineage_nodes n
    CROSS JOIN served s
    WHERE r.open = 1 AND r.depth < :depth
      AND n.tenant = :tenant AND n.number = r.node AND n.kind = 'version' AND s.digest = n.name
),
found(kind, name, digest) AS (
    SELECT n.kind, n.name, n.digest
    FROM (SELECT DISTINCT node FROM reach) r
    CROSS JOIN lineage_nodes n
    WHERE n.tenant = :tenant AND n.number = r.node AND n.number NOT IN (SELECT node FROM roots)
    UNION
    SELECT 'route', route, '' FROM live
    UNION
    SELECT n.kind, n.name, n.digest
    FROM live l
    CROSS JOIN lineage_nodes r
    CROSS JOIN lineage_edges e
    CROSS JOIN lineage_nodes n
    WHERE l.depth < :depth
      AND r.tenant = :tenant AND r.kind = 'route' AND r.name = l.route AND r.digest = ''
      AND e.tenant = :tenant AND e.target = r.number
      AND n.tenant = :tenant AND n.number = e.source
),
wanted(kind, name, digest) AS (
    SELECT kind, name, digest FROM found f
    WHERE (:kind = '' OR kind = :kind)
      AND (:live = 0 OR kind IN ('route', 'application') OR (kind = 'version' AND EXISTS (
        SELECT 1 FROM versions v
        CROSS JOIN aliases a
        WHERE v.tenant = :tenant AND v.digest = f.name {as_digest}
          AND a.tenant = :tenant AND a.adapter = v.adapter AND a.sequence = v.sequence
      )))
)
"""
    for dialect, as_digest in _AS_DIGEST.items()
}
_PAGE = {
    dialect: text(f"""
{impact}
SELECT kind, name, digest FROM wanted
WHERE (kind, name, digest) > (:after_kind, :after_name, :after_digest)
ORDER BY kind, name, digest LIMIT :limit
""")
    for dialect, impact in _IMPACT.items()
}
_COUNTS = {
    dialect: text(f"{impact} SELECT kind, count(*) AS number FROM wanted GROUP BY kind ORDER BY kind")
    for dialect, impact in _IMPACT.items()
}
_REACHES = text(f"""
{_REACH}
SELECT 1 FROM reach r JOIN lineage_nodes n ON n.tenant = :tenant AND n.number = r.node
WHERE r.open = 1 AND n.kind = :kind AND n.name = :name AND n.digest = :digest LIMIT 1
""")
_EDGES = text(f"""
{_REACH}
SELECT e.role, s.kind, s.name, s.digest, t.kind AS target_kind, t.name AS target_name, t.digest AS target_digest
FROM (SELECT DISTINCT node FROM reach WHERE open = 1) r
JOIN lineage_edges e ON e.tenant = :tenant AND e.target = r.node AND e.role NOT IN ({_LEAVES})
JOIN lineage_nodes s ON s.tenant = :tenant AND s.number = e.source
JOIN lineage_nodes t ON t.tenant = :tenant AND t.number = e.target
""")


@dataclass(frozen=True)
class Asked:
    """Whose impact is meant, and which part of it."""

    node: Node
    depth: int | None = None  #: None: any
    kind: str = ""  #: only nodes of this kind
    live: bool = False  #: only versions that an alias names now, routes and applications
    endpoints: Endpoints = NONE

    def parameters(self, tenant: str) -> dict[str, Any]:
        counted = {"step": 0, "depth": 1} if self.depth is None else {"step": 1, "depth": self.depth}
        wanted = {"kind": self.kind, "live": int(self.live)}
        return {**_root(tenant, self.node), **counted, **wanted, **self.endpoints.parameters}


def impact_page(tx: Transaction, tenant: str, asked: Asked, *, after: Node | None, limit: int) -> list[Node]:
    """What stands on the node, by kind, name and digest, from the first after `after`."""
    begin = after or Node("", "")
    place = {"after_kind": begin.kind, "after_name": begin.name, "after_digest": begin.digest, "limit": limit}
    return [Node(*row) for row in tx.execute(_PAGE[tx.dialect.name], {**asked.parameters(tenant), **place})]


def impact_counts(tx: Transaction, tenant: str, asked: Asked) -> dict[str, int]:
    """How many nodes of each kind stand on the node."""
    return {row.kind: row.number for row in tx.execute(_COUNTS[tx.dialect.name], asked.parameters(tenant))}


def path(tx: Transaction, tenant: str, source: Node, target: Node) -> list[Edge]:
    """A shortest way on which `source` stands on `target`, by roles that carry; empty where it does not."""
    everything = {**_root(tenant, target, exact=True), "step": 0, "depth": 1}
    wanted = {"kind": source.kind, "name": source.name, "digest": source.digest}
    if source == target or tx.execute(_REACHES, {**everything, **wanted}).first() is None:
        return []
    standing: dict[Node, list[Edge]] = {}
    for role, *ends in tx.execute(_EDGES, everything):
        edge = Edge(Node(*ends[:3]), role, Node(*ends[3:]))
        standing.setdefault(edge.target, []).append(edge)
    return list(_way(standing, source, target))


def _way(standing: dict[Node, list[Edge]], source: Node, target: Node) -> Iterator[Edge]:
    """Breadth first from the target up, then down again by the edge that each node was found by."""
    found_by: dict[Node, Edge] = {}
    level = [target]
    while source not in found_by:
        above = [edge for node in level for edge in standing.get(node, ())]
        fresh = [found_by.setdefault(edge.source, edge) for edge in above if edge.source not in found_by]
        assert fresh, "the database said that there is a way"
        level = [edge.source for edge in fresh]
    node = source
    while node != target:
        yield found_by[node]
        node = found_by[node].target


def _root(tenant: str, node: Node, *, exact: bool = False) -> dict[str, Any]:
    low, high = (node.digest, node.digest) if node.digest or exact else _ANY
    return {"tenant": tenant, "root_kind": node.kind, "root_name": node.name, "low": low, "high": high}

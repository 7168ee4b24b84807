"""walk: the part of the graph around some nodes, nearest first, level by level, up to a limit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import bindparam, text

from graftwork.db import Transaction
from graftwork.registry.lineage.edges import number_of
from graftwork.registry.lineage.endpoints import NONE, Endpoint, Endpoints
from graftwork.registry.lineage.nodes import Node, version_node
from graftwork.registry.lineage.roles import LEAVES, ROLES, Edge

Direction = Literal["upstream", "downstream"]
#: Edges that are kept, for each node that may be.
_EDGES_PER_NODE = 8
#: Nodes whose edges are asked for at once.
_AT_ONCE = 500
_ENDS = {"upstream": ("source", "target"), "downstream": ("target", "source")}
_LEVEL = {
    direction: text(f"""
SELECT s.kind, s.name, s.digest, e.role, t.kind, t.name, t.digest, e.created_at, e.created_by, e.{far} AS far
FROM lineage_edges e
JOIN lineage_nodes s ON s.tenant = :tenant AND s.number = e.source
JOIN lineage_nodes t ON t.tenant = :tenant AND t.number = e.target
WHERE e.tenant = :tenant AND e.{near} IN :frontier AND e.role NOT IN :without
ORDER BY e.role, e.source, e.target LIMIT :limit
""").bindparams(bindparam("frontier", expanding=True), bindparam("without", expanding=True))
    for direction, (near, far) in _ENDS.items()
}
#: The routes of adapters' own names: those that lead to these versions, or those of these names.
_LIVE = {
    direction: text(f"""
SELECT v.adapter, v.digest, a.updated_at, a.updated_by
FROM versions v
JOIN aliases a ON a.tenant = :tenant AND a.adapter = v.adapter AND a.alias = 'production' AND a.sequence = v.sequence
WHERE v.tenant = :tenant AND {column} IN :names ORDER BY v.adapter
""").bindparams(bindparam("names", expanding=True))
    for direction, column in (("upstream", "v.adapter"), ("downstream", "v.digest"))
}


@dataclass(frozen=True)
class Fact:
    """An edge, who said so and when; of `serves` that is so now, who made it so."""

    edge: Edge
    at: str
    by: str

    def to_json(self) -> dict[str, str]:
        return {**self.edge.to_json(), "at": self.at, "by": self.by}


@dataclass(frozen=True)
class Graph:
    """Nodes in the order of their distance, the roots first; every edge is between two of them."""

    nodes: tuple[Node, ...]
    facts: tuple[Fact, ...]
    truncated: bool  #: there is more, farther away


def walk(
    tx: Transaction,
    tenant: str,
    roots: Iterable[Node],
    direction: Direction,
    *,
    depth: int | None,
    limit: int,
    endpoints: Endpoints = NONE,
) -> Graph:
    """What the roots stand on (`upstream`), or what stands on them, in at most `depth` steps and `limit` nodes.

    A role that does not carry is followed next to the end that it is about only: the datasets that a root was
    evaluated on are shown, those that its ancestors were evaluated on are not.
    """
    return _Walk(tx, tenant, direction, limit, tuple(roots), endpoints).run(depth)


class _Walk:
    def __init__(
        self,
        tx: Transaction,
        tenant: str,
        direction: Direction,
        limit: int,
        roots: tuple[Node, ...],
        endpoints: Endpoints,
    ) -> None:
        self._tx, self._tenant, self._direction, self._limit = tx, tenant, direction, limit
        self._roots, self._endpoints = roots, endpoints
        # The numbers that edges name them by; routes of adapters' names may have none.
        self._nodes: dict[Node, int | None] = {root: number_of(tx, tenant, root) for root in roots}
        self._facts: dict[Edge, Fact] = {}
        self._expanded: set[Node] = set()
        self._truncated = False

    def run(self, depth: int | None) -> Graph:
        level, steps = list(self._roots), 0
        while level and steps != depth:
            self._expanded.update(level)
            found = [*self._stored(level, first=steps == 0), *self._live(level)]
            level = list(dict.fromkeys(node for fact, number in found if (node := self._keep(fact, number))))
            steps += 1
        return Graph(tuple(self._nodes), tuple(self._facts.values()), self._truncated)

    def _keep(self, fact: Fact, number: int | None) -> Node | None:
        """Add a fact and its far end; the far end where the walk goes on from it."""
        upstream = self._direction == "upstream"
        far = fact.edge.target if upstream else fact.edge.source
        if far not in self._nodes:
            if len(self._nodes) == self._limit:
                self._truncated = True
                return None
            self._nodes[far] = number
        self._facts.setdefault(fact.edge, fact)
        goes_on = upstream or ROLES[fact.edge.role].carries
        return far if goes_on and far not in self._expanded else None

    def _stored(self, level: list[Node], *, first: bool) -> Iterator[tuple[Fact, int]]:
        without = LEAVES if self._direction == "upstream" and not first else ("",)
        for numbers in _pieces([number for node in level if (number := self._nodes[node]) is not None]):
            room = max(0, self._limit * _EDGES_PER_NODE - len(self._facts))
            bound = {"tenant": self._tenant, "frontier": numbers, "without": without, "limit": room + 1}
            rows = self._tx.execute(_LEVEL[self._direction], bound).all()
            self._truncated |= len(rows) > room
            for *ends, at, by, far in rows[:room]:
                yield Fact(Edge(Node(*ends[:3]), ends[3], Node(*ends[4:])), at, by), far

    def _live(self, level: list[Node]) -> Iterator[tuple[Fact, int | None]]:
        upstream = self._direction == "upstream"
        asked = {node.name for node in level if node.kind == ("route" if upstream else "version")}
        served = [one for one in self._by_name(sorted(asked)) if one.route not in self._endpoints.routes]
        if asked:
            served += [one for one in self._endpoints.served if (one.route if upstream else one.digest) in asked]
        for one in served:
            edge = Edge(Node("route", one.route), "serves", version_node(one.digest))
            far = edge.target if upstream else edge.source
            yield Fact(edge, one.at, one.by), number_of(self._tx, self._tenant, far)

    def _by_name(self, asked: list[str]) -> Iterator[Endpoint]:
        """What adapters' own names mean."""
        for names in _pieces(asked):
            for route, digest, at, by in self._tx.execute(
                _LIVE[self._direction], {"tenant": self._tenant, "names": names}
            ):
                yield Endpoint(route, digest, at, by)


def _pieces(found: list[Any]) -> Iterator[list[Any]]:
    for begin in range(0, len(found), _AT_ONCE):
        yield found[begin : begin + _AT_ONCE]

"""Lineage: the graph of what versions came from and what stands on them; facts are added, never taken back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from graftwork.access import events
from graftwork.access.clock import Clock, timestamp, utc_now
from graftwork.db import Database, Transaction
from graftwork.errors import InvalidRequest, NotFound
from graftwork.registry.lineage.closure import Asked, impact_counts, impact_page
from graftwork.registry.lineage.described import Described, describe
from graftwork.registry.lineage.edges import Origin, add_edge, nodes_like
from graftwork.registry.lineage.endpoints import NONE, Endpoints
from graftwork.registry.lineage.ends import check_end, resolve
from graftwork.registry.lineage.nodes import KINDS, Node, parse_node
from graftwork.registry.lineage.roles import Edge, check_role
from graftwork.registry.lineage.walk import Direction, Fact, walk
from graftwork.registry.reading import view_of
from graftwork.registry.reference import Reference
from graftwork.registry.subjects import subject_of
from graftwork.registry.versions import Version

ADDED: Final = "lineage.added"
#: The subject of what is about no adapter.
SUBJECT: Final = "lineage"
MAX_DEPTH, MAX_PAGE_SIZE = 1000, 1000
Directions = Literal["upstream", "downstream", "both"]


@dataclass(frozen=True)
class LineageGraph:
    """The part of the graph around some nodes, nearest first; `truncated` where there is more of it."""

    roots: tuple[Node, ...]
    direction: Directions
    nodes: tuple[Described, ...]
    facts: tuple[Fact, ...]
    truncated: bool

    def to_json(self) -> dict[str, Any]:
        return {
            "roots": [str(node) for node in self.roots],
            "direction": self.direction,
            "nodes": [node.to_json() for node in self.nodes],
            "edges": [fact.to_json() for fact in self.facts],
            "truncated": self.truncated,
        }


@dataclass(frozen=True)
class Impact:
    """A page of what stands on some nodes, by kind, name and digest, and how much there is of it in all."""

    roots: tuple[Node, ...]
    counts: Mapping[str, int]  #: by kind
    nodes: tuple[Described, ...]
    next_page_token: str | None

    def to_json(self) -> dict[str, Any]:
        return {
            "roots": [str(node) for node in self.roots],
            "count": sum(self.counts.values()),
            "counts": dict(self.counts),
            "nodes": [node.to_json() for node in self.nodes],
            "next_page_token": self.next_page_token,
        }


class Lineage:
    """Reads and adds to one database's graphs, one per tenant.

    Where a node is asked for, text may be `KIND:NAME[@DIGEST]` or a reference to a version; a node without its digest
    means every digest of that name. Any method raises InvalidRequest for what cannot be read, NotFound for what is not
    there or another tenant's, Unavailable while the database is busy or away.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock = utc_now,
        *,
        endpoints: Callable[[str], Endpoints] = lambda tenant: NONE,
    ) -> None:
        """`endpoints` are those of a tenant now, beside the adapters' own names."""
        self._database = database
        self._clock = clock
        self._endpoints = endpoints

    def add(
        self, tenant: str, source: str, role: str, target: str, *, actor: str, reason: str | None = None
    ) -> tuple[Fact, bool]:
        """Say that `source` stands on `target` in a role of `ROLES`; True when new, else the fact as it was said first.

        Ends that are no versions come into being by being named.

        Raises:
            Conflict: it would close a cycle, which is named.
        """
        ends = check_end(source, field="from"), check_end(target, field="to")
        kinds = ("version" if isinstance(end, Reference) else end.kind for end in ends)
        check_role(role, *kinds)
        at = timestamp(self._clock())
        with self._database.transaction() as tx:
            (near, of_near), (far, of_far) = (resolve(tx, tenant, end) for end in ends)
            edge, named = Edge(near, role, far), (*of_near, *of_far)
            known = add_edge(tx, edge, Origin(tenant, actor, at), named)
            if known is None:
                payload = {**edge.to_json(), "reason": reason}
                events.append(tx, tenant, actor, ADDED, _subject(tx, tenant, edge, named), payload, at=at)
        return (Fact(edge, at, actor), True) if known is None else (Fact(edge, known.at, known.actor), False)

    def graph(
        self, tenant: str, node: str, direction: Directions = "upstream", *, depth: int | None = None, limit: int = 1000
    ) -> LineageGraph:
        """What a node stands on (`upstream`), what stands on it, or both; the nearest `limit` nodes each way."""
        asked = _asked(node, depth, limit, "limit")
        directions: tuple[Direction, ...] = ("upstream", "downstream") if direction == "both" else (direction,)
        endpoints = self._endpoints(tenant)
        with self._database.reading() as tx:
            found, named = _roots(tx, tenant, asked, endpoints)
            roots = found[:limit]
            ways = [walk(tx, tenant, roots, way, depth=depth, limit=limit, endpoints=endpoints) for way in directions]
            nodes = describe(tx, tenant, dict.fromkeys(node for way in ways for node in way.nodes), named)
        facts = {fact.edge: fact for way in ways for fact in way.facts}
        truncated = any(way.truncated for way in ways)
        return LineageGraph(roots, direction, tuple(nodes), tuple(facts.values()), truncated)

    def impact(
        self,
        tenant: str,
        node: str,
        *,
        depth: int | None = None,
        kind: str | None = None,
        live: bool = False,
        page_size: int = 100,
        page_token: str | None = None,
    ) -> Impact:
        """What stands on a node, at any depth: versions, what serves them now, who uses that.

        Args:
            kind: only nodes of this kind.
            live: only versions that an alias names now, under the names that it does; routes and applications.
        """
        end = _asked(node, depth, page_size, "page_size")
        if kind is not None and kind not in KINDS:
            raise InvalidRequest(f"There is no kind {kind[:40]!a}; there are {', '.join(KINDS)}.", field="kind")
        after, endpoints = _place(page_token) if page_token else None, self._endpoints(tenant)
        with self._database.reading() as tx:
            roots, named = _roots(tx, tenant, end, endpoints)
            asked = Asked(end if isinstance(end, Node) else roots[0], depth, kind or "", live, endpoints)
            found = impact_page(tx, tenant, asked, after=after, limit=page_size + 1)
            more = len(found) > page_size
            counts = impact_counts(tx, tenant, asked) if more or after else _counted(found)
            nodes = describe(tx, tenant, found[:page_size], named)
        if live:  # the same bytes may have a name that is aliased and others that are not
            nodes = [replace(one, versions=tuple(name for name in one.versions if name.aliases)) for one in nodes]
        return Impact(roots, counts, tuple(nodes), str(found[page_size - 1]) if more else None)


def _asked(node: str, depth: int | None, size: int, field: str) -> Node | Reference:
    if depth is not None and not 1 <= depth <= MAX_DEPTH:
        raise InvalidRequest(f"depth is {depth}; it must be 1 to {MAX_DEPTH}.", field="depth")
    if not 1 <= size <= MAX_PAGE_SIZE:
        raise InvalidRequest(f"{field} is {size}; it must be 1 to {MAX_PAGE_SIZE}.", field=field)
    return check_end(node, field="node")


def _roots(
    tx: Transaction, tenant: str, end: Node | Reference, endpoints: Endpoints
) -> tuple[tuple[Node, ...], tuple[Version, ...]]:
    """The nodes that are meant, and the version that a reference named.

    Raises:
        NotFound: the graph has none such, and neither a route nor an adapter has the name of such a route.
    """
    node, named = resolve(tx, tenant, end)
    if found := nodes_like(tx, tenant, node):
        return tuple(found), named
    if node.kind == "route":
        if node.name not in endpoints.routes:
            view_of(tx, tenant, node.name)
        return (node,), ()
    raise NotFound(f"Nothing in the lineage is called {node}.")


def _place(token: str) -> Node:
    try:
        return parse_node(token)
    except InvalidRequest as exc:
        raise InvalidRequest("page_token is not one that this list gave.", field="page_token") from exc


def _counted(nodes: list[Node]) -> dict[str, int]:
    kinds = [node.kind for node in nodes]
    return {kind: kinds.count(kind) for kind in sorted(set(kinds))}


def _subject(tx: Transaction, tenant: str, edge: Edge, named: tuple[Version, ...]) -> str:
    """The adapter that the fact is about, that of the version at its near end if there is one, as it was named."""
    for described in describe(tx, tenant, [edge.source, edge.target], named):
        if described.versions:
            return subject_of(described.versions[0].adapter)
    return SUBJECT

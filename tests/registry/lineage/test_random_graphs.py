"""Any graph against plain reachability, writers that race for a cycle, long chains and dense graphs."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graftwork.db import Database
from graftwork.db.schema import lineage_edges, lineage_nodes
from graftwork.errors import Conflict
from graftwork.registry.lineage.edges import Origin, add_edge
from graftwork.registry.lineage.formats import write_graph
from graftwork.registry.lineage.lineage import Lineage
from graftwork.registry.lineage.nodes import Node, version_node
from graftwork.registry.lineage.roles import ROLES, Edge
from support.scale import times

if TYPE_CHECKING:
    from support.desk import Desk

COUNT = 8
PAIRS = st.tuples(st.integers(0, COUNT - 1), st.sampled_from(["derived_from", "merged_from", "trained_on",
                  "generated_by", "evaluated_on"]), st.integers(0, COUNT - 1))  # fmt: skip


class Model:
    """The same graph as sets."""

    def __init__(self) -> None:
        self.edges: set[Edge] = set()

    def upstream(self, node: Node) -> set[Node]:
        """Everything that a node stands on: what does not carry counts as its first step only."""
        found, level = {node}, {node}
        while level:
            near = {edge.target for edge in self.edges if edge.source in level
                    and (ROLES[edge.role].carries or (edge.source == node and level == {node}))}  # fmt: skip
            level = near - found
            found |= level
        return found - {node}

    def closes_a_cycle(self, edge: Edge) -> bool:
        """Whether the target stands on the source, by what carries alone."""
        found, level = {edge.target}, {edge.target}
        while level:
            level = {one.target for one in self.edges if one.source in level and ROLES[one.role].carries} - found
            found |= level
        return edge.source in found


def edge_of(source: int, role: str, target: int) -> Edge:
    """Between the versions or datasets of these numbers, as the role wants."""
    kinds = ROLES[role].pairs[0]
    one, other = (
        Node("dataset", f"d{number}") if kind == "dataset" else version_node(f"sha256:{number:064x}")
        for kind, number in zip(kinds, (source, target), strict=True)
    )
    return Edge(one, role, other)


def test_any_graph_answers_as_plain_reachability(make_desk: Callable[[], Desk]) -> None:
    desk = make_desk()
    lineage = Lineage(desk.database)
    tenants = iter(f"t{number}" for number in range(10**6))

    @settings(max_examples=times(25, 400), deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(PAIRS, max_size=24))
    def check(pairs: list[tuple[int, str, int]]) -> None:
        tenant, model = next(tenants), Model()
        with desk.database.transaction() as tx:
            for pair in pairs:
                edge = edge_of(*pair)
                closes = ROLES[edge.role].carries and model.closes_a_cycle(edge)
                try:
                    known = add_edge(tx, edge, Origin(tenant, "me", "then"))
                except Conflict:
                    assert closes and edge not in model.edges
                    continue
                assert not closes and (known is None) == (edge not in model.edges)
                model.edges.add(edge)
        nodes = {node for edge in model.edges for node in (edge.source, edge.target)}
        above = {node: model.upstream(node) for node in nodes}
        for node in nodes:
            up, down = (lineage.graph(tenant, str(node), way) for way in ("upstream", "downstream"))
            assert {one.node for one in up.nodes} - {node} == above[node]
            below = {other for other in nodes if node in above[other]}
            assert {one.node for one in down.nodes} - {node} == below
            for depth in (None, COUNT * 2):
                assert {one.node for one in lineage.impact(tenant, str(node), depth=depth).nodes} == below
            near = {edge.source for edge in model.edges if edge.target == node}
            assert {one.node for one in lineage.impact(tenant, str(node), depth=1).nodes} == near

    check()


def test_of_two_writers_that_together_would_close_a_cycle_one_wins(desk: Desk) -> None:
    desk.push(1)
    desk.push(2)
    with Database(desk.url) as first, Database(desk.url) as second, ThreadPoolExecutor(2) as pool:
        ways = (("tone:1.0.0", "tone:1.0.1"), ("tone:1.0.1", "tone:1.0.0"))
        ended = [
            pool.submit(Lineage(database).add, "local", source, "derived_from", target, actor="me")
            for database, (source, target) in zip((first, second), ways, strict=True)
        ]
        errors = [one.exception() for one in ended]
    assert sorted(type(error).__name__ for error in errors) == ["Conflict", "NoneType"]
    assert len([fact for fact in Lineage(desk.database).graph("local", "tone:1.0.0", "both").facts
                if fact.edge.role == "derived_from"]) == 1  # fmt: skip


def test_a_graph_with_countless_ways_takes_no_longer_than_it_has_edges(desk: Desk) -> None:
    """Each node stands on the two before it: 400 steps deep, with more ways than atoms."""
    count, stamp = 400, {"tenant": "local", "created_at": "then"}
    nodes = [{**stamp, "number": n, "kind": "dataset", "name": f"d{n}", "digest": ""} for n in range(count)]
    edges = [
        {**stamp, "source": n, "role": "derived_from", "target": n - back, "created_by": "me"}
        for n in range(2, count)
        for back in (1, 2)
    ]
    with desk.database.transaction() as tx:
        tx.execute(lineage_nodes.insert(), nodes)
        tx.execute(lineage_edges.insert(), edges)
    lineage = Lineage(desk.database)
    assert lineage.impact("local", "dataset:d0", page_size=10).counts == {"dataset": count - 2}
    assert lineage.impact("local", "dataset:d0", depth=100, page_size=10).counts == {"dataset": 199}
    assert len(lineage.graph("local", f"dataset:d{count - 1}").nodes) == count
    graph = lineage.graph("local", f"dataset:d{count - 1}", limit=100)
    assert graph.truncated and len(graph.nodes) == 100
    tree = write_graph(lineage.graph("local", f"dataset:d{count - 1}").to_json(), "tree")
    assert len(tree.splitlines()) == len(edges) + 1
    with pytest.raises(Conflict, match="and 193 more"):
        lineage.add("local", "dataset:d1", "derived_from", f"dataset:d{count - 1}", actor="me")

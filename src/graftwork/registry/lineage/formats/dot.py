"""dot: a graph for Graphviz (https://graphviz.org/doc/info/lang.html)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graftwork.registry.lineage.formats.labels import label

_SHAPES = {"version": "box", "dataset": "cylinder", "base": "box3d", "route": "cds", "application": "component"}


def dot(graph: Mapping[str, Any]) -> str:
    """A digraph whose arrows lead from what stands on something to that."""
    names = {node["id"]: f"n{number}" for number, node in enumerate(graph["nodes"])}
    nodes = [
        f"  {names[node['id']]} [label={_quoted(label(node))}, shape={_SHAPES.get(node['kind'], 'ellipse')}];"
        for node in graph["nodes"]
    ]
    edges = [
        f"  {names[edge['from']]} -> {names[edge['to']]} [label={_quoted(edge['role'])}];" for edge in graph["edges"]
    ]
    return "\n".join(["digraph lineage {", "  rankdir=LR;", *nodes, *edges, "}"]) + "\n"


def _quoted(text: str) -> str:
    """A quoted string: a backslash would begin an escape, a quote end it, an ampersand begin an entity."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("&", "&amp;") + '"'

"""tree: a graph as indented text; a node that comes again is named again and not unfolded again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from graftwork.registry.lineage.formats.labels import label

#: Deeper levels are not indented further, so that a long chain of versions stays readable.
_MAX_INDENT = 40


def tree(graph: Mapping[str, Any]) -> str:
    """The roots with what they stand on below them (`role → node`), or what stands on them (`role ← node`), or both."""
    lines: list[str] = []
    if graph["direction"] != "downstream":
        lines += _lines(graph, "from", "to", "→")
    if graph["direction"] != "upstream":
        lines += _lines(graph, "to", "from", "←")
    return "\n".join([*lines, *(["… and more, farther away"] if graph["truncated"] else [])]) + "\n"


def _lines(graph: Mapping[str, Any], near: str, far: str, arrow: str) -> Iterator[str]:
    """Depth first, by a stack of its own: a chain may be longer than Python's."""
    labels = {node["id"]: label(node) for node in graph["nodes"]}
    below: dict[str, list[tuple[str, str]]] = {}
    for edge in sorted(graph["edges"], key=lambda edge: (edge["role"], labels[edge[far]])):
        below.setdefault(edge[near], []).append((f"{edge['role']} {arrow} ", edge[far]))
    unfolded: set[str] = set()
    waiting = [("", root, 0) for root in reversed(graph["roots"])]
    while waiting:
        role, node, depth = waiting.pop()
        again = " (see above)" if node in unfolded and node in below else ""
        yield f"{'  ' * min(depth, _MAX_INDENT)}{role}{labels[node]}{again}"
        if node not in unfolded:
            unfolded.add(node)
            waiting += [(role, child, depth + 1) for role, child in reversed(below.get(node, []))]

"""mermaid: a graph as a Mermaid flowchart (https://mermaid.js.org/syntax/flowchart.html)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graftwork.registry.lineage.formats.labels import label

_SHAPES = {"dataset": ("[(", ")]"), "base": ("[[", "]]"), "route": ("([", "])"), "application": ("{{", "}}")}
_PLAIN = frozenset(" -_.,:/@=+")


def mermaid(graph: Mapping[str, Any]) -> str:
    """A flowchart whose arrows lead from what stands on something to that."""
    names = {node["id"]: f"n{number}" for number, node in enumerate(graph["nodes"])}
    lines = ["flowchart LR"]
    for node in graph["nodes"]:
        opening, closing = _SHAPES.get(node["kind"], ("[", "]"))
        lines.append(f'  {names[node["id"]]}{opening}"{_escaped(label(node))}"{closing}')
    lines += [f"  {names[edge['from']]} -->|{edge['role']}| {names[edge['to']]}" for edge in graph["edges"]]
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    """Everything but letters, digits and harmless signs as Mermaid's `#code;`: no name ends its quotes or is markup."""
    return "".join(char if char.isalnum() or char in _PLAIN else f"#{ord(char)};" for char in text)

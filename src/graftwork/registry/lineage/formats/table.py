"""FORMATS: how a graph can be written; a new one is a new file and one line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from graftwork.errors import InvalidRequest
from graftwork.registry.lineage.formats.dot import dot
from graftwork.registry.lineage.formats.mermaid import mermaid
from graftwork.registry.lineage.formats.openlineage import openlineage
from graftwork.registry.lineage.formats.prov import prov
from graftwork.registry.lineage.formats.tree import tree

FORMATS: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "tree": tree,
    "dot": dot,
    "mermaid": mermaid,
    "prov": prov,
    "openlineage": openlineage,
}


def write_graph(graph: Mapping[str, Any], format_: str) -> str:
    """The text of a graph (`LineageGraph.to_json`) in one of `FORMATS`, with a line's end at its end.

    Raises:
        InvalidRequest: there is no such format.
    """
    if format_ not in FORMATS:
        raise InvalidRequest(f"There is no format {format_[:40]!r}; there are {', '.join(FORMATS)}.", field="format")
    return FORMATS[format_](graph)

"""formats: a graph, as the doors tell it, written for people and for other tools; pure."""

from graftwork.registry.lineage.formats.table import FORMATS, write_graph

__all__ = ["FORMATS", "write_graph"]

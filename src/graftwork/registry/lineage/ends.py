"""ends: what people write at the end of an edge, a node or a reference to a version, and which node it is."""

from __future__ import annotations

from graftwork.db import Transaction
from graftwork.errors import InvalidRequest, NotFound, meant
from graftwork.registry import resolving, versions
from graftwork.registry.lineage.edges import number_of
from graftwork.registry.lineage.nodes import KINDS, Node, parse_node, version_node
from graftwork.registry.reference import Reference, parse_reference
from graftwork.registry.versions import Version


def parse_end(text: str) -> Node | Reference:
    """Read `KIND:NAME[@DIGEST]`, `version:REFERENCE`, or a reference.

    What begins with a kind and a colon is a node: the version 1.0.0 of an adapter called "base" is
    `version:base:1.0.0`.

    Raises:
        InvalidRequest: saying the grammar.
    """
    kind, colon, rest = text.partition(":")
    if not colon or kind not in KINDS:
        try:
            return parse_reference(text)
        except InvalidRequest as exc:
            if colon and not rest[:1].isdigit() and "@" not in kind:
                raise _no_kind(text, kind) from exc
            raise
    if kind == "version" and not rest.startswith("sha256:"):
        return parse_reference(rest)
    return parse_node(text)


def resolve(tx: Transaction, tenant: str, end: Node | Reference) -> tuple[Node, tuple[Version, ...]]:
    """The node that is meant, and the version that a reference named; it is there, or was when the graph learned of it.

    Raises:
        NotFound: this tenant has no such version.
    """
    if isinstance(end, Reference):
        version = resolving.resolve(tx, tenant, end)
        return version_node(version.digest), (version,)
    if end.kind == "version" and number_of(tx, tenant, end) is None and not versions.has_digest(tx, tenant, end.name):
        raise NotFound(f"There is no version {end.name}. `graftwork list` shows what there is.")
    return end, ()


def _no_kind(text: str, kind: str) -> InvalidRequest:
    hint = f"Did you mean dataset:{text[:80]}?" if "://" in text else meant(kind, KINDS)
    return InvalidRequest(
        f"{text[:80]!a} names neither a version (NAME:1.0.0, NAME@alias) nor a node (KIND:NAME): {kind[:40]!a} is no "
        f"kind. {hint}",
        field="node",
    )


def check_end(text: str, *, field: str) -> Node | Reference:
    """`parse_end` for a request's field."""
    try:
        return parse_end(text)
    except InvalidRequest as exc:
        raise InvalidRequest(exc.message, field=field) from exc

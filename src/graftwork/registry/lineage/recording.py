"""recording: what a push says of the origin of its version becomes edges, in the transaction of the push."""

from __future__ import annotations

from graftwork.db import Transaction
from graftwork.errors import Conflict, NotFound
from graftwork.registry.lineage.edges import Origin, add_edge
from graftwork.registry.lineage.ends import resolve
from graftwork.registry.lineage.facts import edges_of
from graftwork.registry.lineage.nodes import Node, version_node
from graftwork.registry.lineage.roles import Edge
from graftwork.registry.versions import Version


def record(tx: Transaction, version: Version) -> None:
    """Write where a version that is being registered comes from: its base, and what its metadata says.

    Raises:
        InvalidRequest: the metadata speaks of origins in another form than `facts.py` says.
        NotFound: a parent is no version of this tenant.
        Conflict: it would come from itself: the same bytes under another name are the same node.
    """
    origin = Origin(version.tenant, version.created_by, version.created_at)
    source = version_node(version.digest)
    add_edge(tx, Edge(source, "based_on", Node("base", version.base, version.base_digest)), origin)
    for claim in edges_of(version.metadata or {}):
        try:
            target, named = resolve(tx, version.tenant, claim.target)
            add_edge(tx, Edge(source, claim.role, target), origin, asked=(version, *named))
        except (NotFound, Conflict) as exc:
            raise type(exc)(f"metadata.{claim.field}: {exc.message}") from exc

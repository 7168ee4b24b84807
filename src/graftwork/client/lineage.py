"""LineageClient: what versions came from and what stands on them, asked of a server."""

from __future__ import annotations

import httpx

from graftwork.client.wire import Json, Wire
from graftwork.registry.lineage.formats import write_graph


class LineageClient:
    """`client.lineage`. A node is `KIND:NAME[@DIGEST]` (`dataset:s3://corpora/eu`) or a reference to a version."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def graph(
        self, node: str, *, direction: str = "upstream", depth: int | None = None, limit: int | None = None
    ) -> Json:
        """What a node stands on (`upstream`), what stands on it (`downstream`), or `both`, nearest first."""
        params = {"node": node, "direction": direction, "depth": depth, "limit": limit}
        return self._wire.json("GET", "/api/v1/lineage", params=_given(params))

    def export(
        self,
        node: str,
        format_: str,
        *,
        direction: str = "upstream",
        depth: int | None = None,
        limit: int | None = None,
    ) -> str:
        """The same as text: `tree`, `dot`, `mermaid`, `prov` (PROV-JSON) or `openlineage` (events, one per line)."""
        return write_graph(self.graph(node, direction=direction, depth=depth, limit=limit), format_)

    def impact(
        self,
        node: str,
        *,
        depth: int | None = None,
        kind: str | None = None,
        live: bool = False,
        page_size: int | None = None,
        page_token: str | None = None,
    ) -> Json:
        """A page of what stands on a node, with `count` and `counts` of all of it and `next_page_token`."""
        asked = {"depth": depth, "kind": kind, "live": live or None, "page_size": page_size, "page_token": page_token}
        return self._wire.json("GET", "/api/v1/lineage/impact", params={"node": node, **_given(asked)})

    def add(self, source: str, role: str, target: str, *, reason: str | None = None) -> Json:
        """Say that `source` stands on `target`; the answer has `created` false where that was said before.

        Raises:
            Conflict: it would close a cycle.
        """
        body = {"from": source, "role": role, "to": target, "reason": reason}
        response = self._wire.send("POST", "/api/v1/lineage/edges", json=body)
        return {**response.json(), "created": response.status_code == httpx.codes.CREATED}


def _given(params: Json) -> Json:
    return {key: value for key, value in params.items() if value is not None}

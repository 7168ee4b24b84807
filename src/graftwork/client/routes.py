"""Routes: which version answers under a name, by rules, asked of a server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from graftwork.client.wire import Json, Wire
from graftwork.errors import InvalidRequest


class Routes:
    """`client.routes`; raises as `Client` does."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def set(self, document: Mapping[str, Any], *, expected: str | None = None, reason: str | None = None) -> Json:
        """Make a document the live revision of the route that its `metadata` names.

        Args:
            expected: the digest of the revision that must be live, `absent` or `present`; anything where it is None.

        Raises:
            InvalidResource: the document. Conflict: a base has the name. PreconditionFailed: another revision is live.
        """
        metadata = document.get("metadata")
        name = metadata.get("name") if isinstance(metadata, Mapping) else None
        if not isinstance(name, str) or not name:
            raise InvalidRequest("A route document says in metadata.name how the route is called.", field="route")
        headers, params = _expecting(expected), _given(reason)
        return self._wire.json("PUT", _place(name), json=dict(document), headers=headers, params=params)

    def show(self, name: str, *, revision: int | None = None) -> Json:
        """The live revision of a route, or another one."""
        params = {} if revision is None else {"revision": str(revision)}
        return self._wire.json("GET", _place(name), params=params)

    def revisions(self, name: str) -> list[Json]:
        """All that the route ever had, the newest first; also of one that was removed."""
        return self._wire.pages(f"{_place(name)}/revisions", "revisions")

    def rollback(
        self, name: str, *, revision: int | None = None, expected: str | None = None, reason: str | None = None
    ) -> Json:
        """Make the revision live that was it before, or another one.

        Raises:
            Conflict: no other was live before.
        """
        body = {"revision": revision, "expected": expected, "reason": reason}
        return self._wire.json("POST", f"{_place(name)}/rollback", json=body)

    def remove(self, name: str, *, expected: str | None = None, reason: str | None = None) -> None:
        self._wire.send("DELETE", _place(name), headers=_expecting(expected), params=_given(reason))

    def explain(self, name: str, *, headers: Mapping[str, str] | None = None, **said: str) -> Json:
        """What a route would decide of a request: which rule, why none before it, and which arm.

        Args:
            said: of `task`, `user`, `key`, `session`, `locale`, `region` and `at`, a time; what is left out is as in
                the request that asks.
        """
        return self._wire.json("POST", f"{_place(name)}/explain", json={**said, "headers": dict(headers or {})})

    def list(self) -> list[Json]:
        """All routes with their live revisions, by name."""
        return self._wire.pages("/api/v1/routes", "routes")


def _place(name: str) -> str:
    return f"/api/v1/routes/{quote(name, safe='')}"


def _given(reason: str | None) -> dict[str, str]:
    return {} if reason is None else {"reason": reason}


def _expecting(expected: str | None) -> dict[str, str]:
    if expected is None:
        return {}
    if expected == "absent":
        return {"If-None-Match": "*"}
    return {"If-Match": "*" if expected == "present" else f'"{expected}"'}

"""Routes: which version answers under a name, by rules, asked of a server."""

from __future__ import annotations

from collections.abc import Mapping

from graftwork.client.resources import Resources
from graftwork.client.wire import Json, Wire


class Routes(Resources):
    """`client.routes`; raises as `Client` does."""

    def __init__(self, wire: Wire) -> None:
        super().__init__(wire, "/api/v1/routes", "routes")

    def explain(self, name: str, *, headers: Mapping[str, str] | None = None, **said: str) -> Json:
        """What a route would decide of a request: which rule, why none before it, and which arm.

        Args:
            said: of `task`, `user`, `key`, `session`, `locale`, `region` and `at`, a time; what is left out is as in
                the request that asks.
        """
        return self._wire.json("POST", f"{self._at(name)}/explain", json={**said, "headers": dict(headers or {})})

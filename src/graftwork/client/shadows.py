"""Shadows: how versions would have answered beside those that did, asked of a server."""

from __future__ import annotations

from graftwork.client.wire import Json, Wire

Pairs = list[Json]


class Shadows:
    """`client.shadows`; raises as `Client` does."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def list(self, *, limit: int | None = None, **filters: str | None) -> list[Json]:
        """The newest first; filters are `route`, `rollout`, `arm`, `digest` (of the version that shadows), `outcome`
        (`ok`, `error`, `timeout`), `exact` (`true`, `false`), `since` and `until`, all of them texts.
        """
        params = {name: value for name, value in filters.items() if value is not None}
        found: list[Json] = []
        size = str(1000 if limit is None else min(limit, 1000))
        for page in self._wire.each_page("/api/v1/shadows", **params, page_size=size):
            found += page["shadows"]
            if limit is not None and len(found) >= limit:
                break
        return found[:limit]

    def report(
        self, route: str, *, rollout: str | None = None, since: str | None = None, until: str | None = None
    ) -> Pairs:
        """What the copies of a route's requests say of each pair of versions, the newest pair first."""
        given = {"route": route, "rollout": rollout, "since": since, "until": until}
        params = {name: value for name, value in given.items() if value is not None}
        pairs: Pairs = self._wire.json("GET", "/api/v1/shadows/report", params=params)["pairs"]
        return pairs

"""Rollouts: started, watched and told what to do, asked of a server."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from contextlib import closing
from typing import Any
from urllib.parse import quote

import httpx

from graftwork.client.wire import Json, Wire
from graftwork.errors import Unavailable
from graftwork.protocol.errors import error_from


class Rollouts:
    """`client.rollouts`; raises as `Client` does. A rollout is known by its route: the newest one of it is meant."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def start(
        self, document: Mapping[str, Any], *, reason: str | None = None, idempotency_key: str | None = None
    ) -> Json:
        """Begin what a Rollout document says; one of the same route that runs is superseded.

        Raises:
            Conflict: the route means that version already, or cannot mean it.
        """
        params = {} if reason is None else {"reason": reason}
        headers = _once(idempotency_key)
        return self._wire.json("POST", "/api/v1/rollouts", json=dict(document), params=params, headers=headers)

    def show(self, route: str) -> Json:
        return self._wire.json("GET", _place(route))

    def steps(self, route: str) -> list[Json]:
        """What happened to the rollouts of a route, the newest first."""
        return self._wire.pages(f"{_place(route)}/steps", "steps")

    def list(self, *, status: str | None = None) -> list[Json]:
        """The newest rollout of each route."""
        return self._wire.pages("/api/v1/rollouts", "rollouts", **({} if status is None else {"status": status}))

    def watch(self, route: str) -> Generator[Json, None, None]:
        """The rollout now, and each time that it has changed, or gates say something else of it, until it ends.

        Raises:
            Unavailable: the connection broke, or the server ends.
        """
        response = self._wire.send("GET", _place(route), params={"follow": "true"}, stream=True)
        ended, kind = False, ""
        with closing(response):
            try:
                for line in response.iter_lines():
                    field, _, value = line.partition(": ")
                    if field == "event":
                        kind = value
                    elif field == "data":
                        said = json.loads(value)
                        if kind == "error":
                            raise error_from(said["status"], said)
                        ended = said["ended_at"] is not None
                        yield said
            except httpx.TransportError as error:
                raise Unavailable(f"The stream broke: {error}.") from error
        if not ended:
            raise Unavailable("The server ended the stream.")

    def pause(self, route: str, *, reason: str | None = None) -> Json:
        """Keep everything as it is until somebody resumes."""
        return self._tell(route, "pause", reason)

    def resume(self, route: str, *, reason: str | None = None) -> Json:
        """Go on; a step that waits for a person is done by this. Raises Conflict where it is not paused."""
        return self._tell(route, "resume", reason)

    def promote(self, route: str, *, arm: str | None = None, reason: str | None = None) -> Json:
        """Let the route mean a candidate now, whatever is left to do; `arm` says which, where there are several.

        Raises:
            Forbidden: the policy does not allow it.
        """
        return self._tell(route, "promote", reason, arm=arm)

    def abort(self, route: str, *, reason: str | None = None) -> Json:
        """Everybody is answered by the stable version again, at once."""
        return self._tell(route, "abort", reason)

    def retry(self, route: str, *, reason: str | None = None, idempotency_key: str | None = None) -> Json:
        """Begin an aborted rollout again, from its first step."""
        body = {"reason": reason}
        return self._wire.json("POST", f"{_place(route)}/retry", json=body, headers=_once(idempotency_key))

    def _tell(self, route: str, verb: str, reason: str | None, **more: str | None) -> Json:
        return self._wire.json("POST", f"{_place(route)}/{verb}", json={"reason": reason, **more})


def _place(route: str) -> str:
    return f"/api/v1/rollouts/{quote(route, safe='')}"


def _once(key: str | None) -> dict[str, str]:
    return {} if key is None else {"idempotency-key": key}

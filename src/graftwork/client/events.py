"""Events: the event log on a server: listed, followed, verified, exported."""

from __future__ import annotations

import json
import time
from collections.abc import Generator, Iterator
from contextlib import closing
from pathlib import Path

import httpx

from graftwork.client.wire import Json, Wire
from graftwork.errors import Conflict, Damaged, Unavailable
from graftwork.protocol.errors import error_from

#: Pauses, in seconds, between attempts to follow a server that is away; then one gives up.
PAUSES_S = (0.1, 0.5, 1.0, 2.0, 5.0, 5.0, 5.0, 5.0, 5.0, 5.0)
_PAGE = 1000


class Events:
    """The event log, in `Client.events`. Filters: `kind`, `subject`, `actor`, `since`, `until`; all of them texts."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def list(self, *, after: int = 0, **filters: str | None) -> list[Json]:
        """Your events in order, from the one after position `after`."""
        return self._wire.pages("/api/v1/events", "events", **_params(after, filters), page_size=str(_PAGE))

    def follow(self, *, after: int = 0, **filters: str | None) -> Generator[Json, None, None]:
        """The same, and then without end those to come; it goes on where a broken connection left it.

        Raises:
            Unavailable: the server was away for too long.
        """
        pauses = iter(PAUSES_S)
        while True:
            try:
                params = {**_params(after, filters), "follow": "true"}
                response = self._wire.send("GET", "/api/v1/events", params=params, stream=True)
                with closing(response):
                    for event in _told(response):
                        after, pauses = event["position"], iter(PAUSES_S)
                        yield event
            except (Unavailable, httpx.TransportError) as error:
                reason: Exception = error
            else:
                reason = Unavailable("The server ended the stream.")
            if (pause := next(pauses, None)) is None:
                raise reason if isinstance(reason, Unavailable) else Unavailable(f"The stream broke: {reason}.")
            time.sleep(pause)

    def head(self) -> Json:
        """How many events there are and the hash of the last one: `{"events", "head"}`."""
        return self._wire.json("GET", "/api/v1/audit/head")

    def verify(self, *, expected_head: str | None = None) -> Json:
        """Whether every hash holds: `{"ok", "events", "head", "withheld", "problem"}`.

        Args:
            expected_head: a hash that you noted down before; that it is still in the log shows that no end was cut off.
        """
        return self._wire.json("POST", "/api/v1/audit/verify", json={"expected_head": expected_head})

    def export(self, file: str | Path) -> Json:
        """Write the whole chain into a new `file`, a line of JSON for each event; others' events are links only.

        Returns what `verify` says of the file.

        Raises:
            Conflict: there is such a file.
            Damaged: the chain does not hold; no file is left.
        """
        from graftwork.access.event_file import line_of, verify_file  # and with them the database, for this alone

        target = Path(file)
        partial = target.with_name(f".{target.name}.partial")
        if target.exists():
            raise Conflict(f"{target} is there already; choose another file.")
        try:
            with partial.open("w", encoding="utf-8") as lines:
                lines.writelines(line_of(event) for event in self._chain())
            found = verify_file(partial)
            if found.problem is not None:
                raise Damaged(found.problem)
            partial.rename(target)
        finally:
            partial.unlink(missing_ok=True)
        return found.to_json()

    def _chain(self) -> Iterator[Json]:
        after = 0
        while events := self._wire.json(
            "GET", "/api/v1/audit/chain", params={"after": str(after), "page_size": str(_PAGE)}
        )["events"]:
            yield from events
            after = events[-1]["position"]


def _params(after: int, filters: dict[str, str | None]) -> dict[str, str]:
    return {"after": str(after), **{name: value for name, value in filters.items() if value is not None}}


def _told(response: httpx.Response) -> Iterator[Json]:
    """The events of a stream of server-sent events; raises what the server says ends it."""
    kind = ""
    for line in response.iter_lines():
        field, _, value = line.partition(": ")
        if field == "event":
            kind = value
        elif field == "data":
            said = json.loads(value)
            if kind == "error":
                raise error_from(said["status"], said)
            yield said

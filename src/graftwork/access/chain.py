"""Chain: checks the event log's hash chain, one event after another, in constant memory."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from graftwork.errors import Damaged, InvalidRequest
from graftwork.protocol.canonical import canonical, sha256

#: What the first event follows.
GENESIS = "sha256:" + "0" * 64
_HASH = re.compile(r"sha256:[0-9a-f]{64}")


def hash_of(body: Mapping[str, Any]) -> str:
    """The hash of an event's other fields. `payload` counts as its text, so that reading it back changes nothing."""
    return sha256(canonical(dict(body), what="event"))


class Chain:
    """How far a log holds: feed it every event from the first one on, then ask `finish`.

    Raises:
        InvalidRequest: what is expected is no hash, which no log can hold.
    """

    def __init__(self, expected_head: str | None = None) -> None:
        if expected_head is not None and not _HASH.fullmatch(expected_head):
            raise InvalidRequest(
                f"The expected head {expected_head[:80]!a} is not sha256: and 64 lower-case hex digits, as "
                "`graftwork audit head` shows it.",
                field="expected_head",
            )
        self.events = 0
        self.head = GENESIS
        self._expected = expected_head
        self._seen = expected_head in (None, GENESIS)

    def follow(self, row: Mapping[str, Any]) -> None:
        """Take the next event, its payload as text; one without content is a link, whose hash is taken as it stands.

        Raises:
            Damaged: naming its position, when it does not follow the one before or its content is not what was hashed.
        """
        body = {key: value for key, value in row.items() if key != "hash"}
        follows = body.get("position") == self.events + 1 and body.get("previous") == self.head
        if not follows or not _holds(body, row.get("hash")):
            raise Damaged(
                f"The event log does not hold at position {self.events + 1}: an event was changed, removed or "
                "inserted. Restore the database from a backup that verifies."
            )
        self.events, self.head = self.events + 1, row["hash"]
        self._seen = self._seen or self.head == self._expected

    def finish(self) -> None:
        """Raises Damaged where the expected head was not among the hashes."""
        if not self._seen:
            raise Damaged(f"The event log no longer holds the event {self._expected}: its end was cut off.")


def _holds(body: Mapping[str, Any], said: Any) -> bool:
    try:
        return isinstance(said, str) and (len(body) == 2 or said == hash_of(body))
    except InvalidRequest:  # what cannot be hashed never was
        return False

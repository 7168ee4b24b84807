"""Event files: the chain as lines of JSON, which can be checked without a database."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from graftwork.access.chain import Chain
from graftwork.access.event_log import Verification
from graftwork.access.events import Event
from graftwork.errors import Damaged, InvalidRequest
from graftwork.protocol.canonical import canonical

MAX_LINE_BYTES = 64 << 20
_LINK = frozenset({"position", "previous", "hash"})
_WHOLE = frozenset(Event.__dataclass_fields__)


def line_of(event: dict[str, Any]) -> str:
    """One event, or one link to another tenant's, as a line."""
    return canonical(event, what="event") + "\n"


def verify_file(path: Path, expected_head: str | None = None) -> Verification:
    """Check a file of such lines, a line in memory at a time: that they are one chain from its beginning, and hashes.

    Raises:
        InvalidRequest: the expected head is no hash.
        OSError: the file cannot be read.
    """
    chain, withheld = Chain(expected_head), 0
    try:
        with path.open("rb") as file:
            while line := file.readline(MAX_LINE_BYTES):
                row = _row(line, chain.events + 1)
                chain.follow(row)
                withheld += row.keys() == _LINK
        chain.finish()
    except Damaged as error:
        return Verification(chain.events, chain.head, withheld, error.message)
    return Verification(chain.events, chain.head, withheld)


def _row(line: bytes, number: int) -> dict[str, Any]:
    try:
        row = json.loads(line)
        if (
            line.endswith(b"\n")
            and isinstance(row, dict)
            and row.keys() in (_LINK, _WHOLE)
            and isinstance(row["hash"], str)
        ):
            return row | ({"payload": canonical(row["payload"], what="payload")} if "payload" in row else {})
    except (ValueError, RecursionError, InvalidRequest):
        pass
    raise Damaged(f"Line {number} is not a whole event: the file was cut off or changed. Export the log again.")

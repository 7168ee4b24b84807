"""Clock: where the time comes from, and the one way it is written."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

Clock = Callable[[], datetime]


def utc_now() -> datetime:
    """The real clock."""
    return datetime.now(UTC)


def timestamp(moment: datetime) -> str:
    """RFC 3339 in UTC with microseconds, always 27 characters: `2026-01-31T09:30:00.000000Z`."""
    assert moment.tzinfo is not None, "a clock without a time zone would write local time as UTC"
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")

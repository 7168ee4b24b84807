"""Clock: where the time comes from, and the one way it is written."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime

from graftwork.errors import InvalidRequest

Clock = Callable[[], datetime]
#: A zone whose plus sign a URL has made a space.
_LOST_PLUS = re.compile(r":\d\d \d\d:\d\d$")


def utc_now() -> datetime:
    """The real clock."""
    return datetime.now(UTC)


def timestamp(moment: datetime) -> str:
    """RFC 3339 in UTC with microseconds, always 27 characters: `2026-01-31T09:30:00.000000Z`."""
    assert moment.tzinfo is not None, "a clock without a time zone would write local time as UTC"
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def read_time(text: str, *, field: str) -> str:
    """A time that somebody wrote in RFC 3339, as `timestamp` writes it.

    Raises:
        InvalidRequest: it is not one, or does not say its zone.
    """
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None or len(text) <= len("2026-01-31"):
            raise ValueError
        return timestamp(moment)
    except (ValueError, OverflowError):
        hint = " (in a URL, + is %2B)" if _LOST_PLUS.search(text) else ""
        raise InvalidRequest(
            f"{field} is {text[:64]!a}; write a time with its zone, such as 2026-01-31T09:30:00Z{hint}.",
            field=field,
        ) from None

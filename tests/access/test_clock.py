"""Time: written one way."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from graftwork.access.clock import read_time, timestamp, utc_now
from graftwork.errors import InvalidRequest


def test_a_timestamp_is_rfc_3339_in_utc_with_microseconds() -> None:
    moment = datetime(2026, 1, 31, 11, 30, tzinfo=timezone(timedelta(hours=2)))
    assert timestamp(moment) == "2026-01-31T09:30:00.000000Z"


@pytest.mark.parametrize(("text", "hint"), [("yesterday", False), ("2026-01-31T09:30:00 02:00", True)])
def test_that_a_url_takes_a_plus_for_a_space_is_told_where_that_happened(text: str, hint: bool) -> None:
    with pytest.raises(InvalidRequest, match="write a time with its zone") as wrong:
        read_time(text, field="at")
    assert ("%2B" in wrong.value.message) == hint


def test_the_real_clock_is_in_utc() -> None:
    assert utc_now().tzinfo is UTC

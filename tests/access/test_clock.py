"""Time: written one way."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

from graftwork.access.clock import timestamp, utc_now


def test_a_timestamp_is_rfc_3339_in_utc_with_microseconds() -> None:
    moment = datetime(2026, 1, 31, 11, 30, tzinfo=timezone(timedelta(hours=2)))
    assert timestamp(moment) == "2026-01-31T09:30:00.000000Z"


def test_the_real_clock_is_in_utc() -> None:
    assert utc_now().tzinfo is UTC

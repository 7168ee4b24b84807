"""Outcomes: what is tried again, when, and until when."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graftwork.registry.webhooks.outcome import GIVES_UP_AFTER, LONGEST_WAIT_S, Outcome

NOW = datetime(2026, 1, 31, 9, 30, tzinfo=UTC)


@pytest.mark.parametrize("status", [408, 425, 429, 500, 503, 599])
def test_what_may_pass_is_tried_again(status: int) -> None:
    assert Outcome(status).again_at(1, NOW, NOW, 0.0) == NOW + timedelta(seconds=2.5)
    assert Outcome(status).words == f"answered {status}"


@pytest.mark.parametrize("outcome", [Outcome(200), Outcome(302), Outcome(400), Outcome(410), Outcome(refused=True)])
def test_what_is_settled_is_not(outcome: Outcome) -> None:
    assert outcome.again_at(1, NOW, NOW, 0.0) is None
    assert outcome.delivered == (outcome.status == 200)


@given(st.integers(1, 200), st.floats(0, 1), st.floats(0, 1e9))
def test_waits_double_up_to_an_hour_and_are_as_long_as_the_answer_asked_for(
    attempts: int, chance: float, retry_after_s: float
) -> None:
    at = Outcome(error="gone", retry_after_s=retry_after_s).again_at(attempts, NOW, NOW, chance)
    assert at is not None
    wait_s, longest = (at - NOW).total_seconds(), min(LONGEST_WAIT_S, 5 * 2.0 ** (attempts - 1))
    asked = min(retry_after_s, LONGEST_WAIT_S)
    assert max(longest / 2, asked) - 1e-3 <= wait_s <= max(longest, asked) + 1e-3


def test_after_a_day_nobody_tries_again() -> None:
    last = NOW + GIVES_UP_AFTER - timedelta(seconds=3)
    assert Outcome(500).again_at(1, NOW, last, 0.0) is not None
    assert Outcome(500).again_at(1, NOW, last, 1.0) is None

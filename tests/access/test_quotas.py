"""Quotas: token buckets as pure functions of what was used and when."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graftwork.access.quotas import NO_QUOTAS, Quotas, Use, admit, check_stock, leave, rooms, spend
from graftwork.errors import QuotaExhausted, TooManyRequests

LIMIT = st.integers(1, 50)
#: Seconds until the next request, and tokens that its answer takes.
ASKED = st.lists(st.tuples(st.floats(0, 90), st.integers(0, 40)), max_size=40)


@given(LIMIT, ASKED)
def test_in_no_time_more_is_admitted_than_it_gives_and_a_minutes_worth(
    per_minute: int, asked: list[tuple[float, int]]
) -> None:
    use, now, admitted = Use(), 0.0, list[float]()
    for wait_s, _ in asked:
        now += wait_s
        with suppress(TooManyRequests):
            use = admit(use, Quotas(requests_per_minute=per_minute), now)
            admitted.append(now)
    for first, begin in enumerate(admitted):
        for last in range(first, len(admitted)):
            passed_s = admitted[last] - begin
            assert last - first + 1 <= per_minute * (1 + passed_s / 60) + 1e-6


@given(LIMIT, ASKED)
def test_who_waits_as_long_as_is_said_is_admitted_then(per_minute: int, asked: list[tuple[float, int]]) -> None:
    use, now, quotas = Use(), 0.0, Quotas(requests_per_minute=per_minute, tokens_per_minute=per_minute)
    for wait_s, tokens in asked:
        now += wait_s
        try:
            use = admit(use, quotas, now)
        except TooManyRequests as error:
            now += error.retry_after_s
            with suppress(TooManyRequests):  # the tokens' turn comes before the requests'
                use = admit(use, quotas, now)
                use = spend(use, quotas, tokens, now)
                continue
            with pytest.raises(TooManyRequests) as again:
                admit(use, quotas, now)
            now += again.value.retry_after_s
            use = admit(use, quotas, now)
        use = spend(use, quotas, tokens, now)


@given(LIMIT, ASKED)
def test_over_any_time_no_more_tokens_are_taken_than_are_given_but_for_the_last_answers(
    per_minute: int, asked: list[tuple[float, int]]
) -> None:
    use, now, spent, largest, quotas = Use(), 0.0, 0, 0, Quotas(tokens_per_minute=per_minute)
    for wait_s, tokens in asked:
        now += wait_s
        with suppress(TooManyRequests):
            use = leave(spend(admit(use, quotas, now), quotas, tokens, now))
            spent, largest = spent + tokens, max(largest, tokens)
    assert spent <= per_minute * (1 + now / 60) + largest + 1e-6


def test_nothing_is_taken_of_any_quota_where_one_refuses() -> None:
    quotas = Quotas(requests_per_minute=2, concurrent=1)
    use = admit(Use(), quotas, 0.0)
    with pytest.raises(TooManyRequests, match="at once"):
        admit(use, quotas, 0.0)
    assert [room.remaining for room in rooms(use, quotas, 0.0)] == [1]
    assert admit(leave(use), quotas, 0.0).running == 1


def test_without_quotas_there_is_nothing_to_count() -> None:
    use = admit(Use(), NO_QUOTAS, 0.0)
    assert (use.requests, use.tokens, rooms(use, NO_QUOTAS, 1.0)) == (None, None, [])
    assert spend(use, NO_QUOTAS, 1000, 1.0) == use


def test_a_quota_that_is_set_later_begins_full_and_one_that_is_lowered_holds_at_once() -> None:
    use = admit(Use(), NO_QUOTAS, 0.0)
    use = admit(use, Quotas(requests_per_minute=10), 1.0)
    assert rooms(use, Quotas(requests_per_minute=10), 1.0)[0].remaining == 9
    assert rooms(use, Quotas(requests_per_minute=3), 1.0)[0].remaining == 3


def test_a_clock_that_stands_still_or_goes_back_gives_nothing() -> None:
    quotas = Quotas(requests_per_minute=60)
    use = admit(Use(), quotas, 100.0)
    assert rooms(use, quotas, 50.0)[0].remaining == 59


def test_what_is_kept_is_limited_by_count() -> None:
    quotas = Quotas(adapters=2, bytes=100)
    check_stock(quotas, adapters=2, stored=100)
    for more in ({"adapters": 3}, {"stored": 101}):
        with pytest.raises(QuotaExhausted, match="delete"):
            check_stock(quotas, **more)

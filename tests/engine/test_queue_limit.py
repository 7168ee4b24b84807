"""QueueLimit: one tenant does not fill the queue for others, and who is sent away is told when to come back."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graftwork.engine.queue_limit import MOST_RETRY_S, QueueLimit
from graftwork.engine.request import Caller
from graftwork.errors import TooManyRequests, Unavailable

A, B, HEAVY = Caller("a"), Caller("b"), Caller("heavy", weight=3.0)


class Queue:
    """A limit of ten, and a clock that stands."""

    def __init__(self) -> None:
        self.now, self.running = 0.0, dict[str, int]()
        self.limit = QueueLimit(10, lambda: self.now)

    def enter(self, caller: Caller, times: int = 1) -> None:
        for _ in range(times):
            self.limit.enter(caller, self._running, sum(self.running.values()))

    def leave(self, caller: Caller) -> None:
        self.limit.leave(caller, sum(self.running.values()))

    def _running(self) -> Mapping[str, int]:
        return self.running


@pytest.fixture
def queue() -> Queue:
    return Queue()


def test_a_tenant_alone_has_the_whole_queue(queue: Queue) -> None:
    queue.running = {"a": 4}
    queue.enter(A, 14)
    with pytest.raises(Unavailable, match="10 requests are waiting") as caught:
        queue.enter(A)
    assert type(caught.value) is Unavailable
    queue.leave(A)
    queue.enter(A)


def test_one_who_fills_the_queue_is_sent_away_and_others_get_their_share(queue: Queue) -> None:
    queue.enter(A, 10)
    queue.enter(B, 5)
    for caller in (A, B):
        with pytest.raises(TooManyRequests, match="share of the queue beside 1 others"):
            queue.enter(caller)
    queue.enter(HEAVY, 5)
    with pytest.raises(Unavailable, match="20 requests") as caught:
        queue.enter(HEAVY)
    assert type(caught.value) is Unavailable, "the whole queue is full"


def test_shares_are_by_weight(queue: Queue) -> None:
    queue.enter(A, 10)
    queue.enter(HEAVY, 7)
    with pytest.raises(TooManyRequests):
        queue.enter(HEAVY)


def test_what_runs_does_not_wait(queue: Queue) -> None:
    queue.enter(A, 10)
    queue.running = {"a": 1}
    queue.enter(B)
    queue.enter(B, 4)
    with pytest.raises(TooManyRequests):
        queue.enter(B)
    queue.running = {"a": 1, "b": 3}
    queue.enter(B)


def test_who_is_sent_away_is_told_how_long_the_queue_takes(queue: Queue) -> None:
    queue.enter(A, 10)
    with pytest.raises(Unavailable) as caught:
        queue.enter(A)
    assert caught.value.retry_after_s == 1, "nothing was measured yet"
    for _ in range(6):
        queue.now += 3.0
        queue.leave(A)
        queue.enter(A)
    with pytest.raises(Unavailable) as caught:
        queue.enter(A)
    assert caught.value.retry_after_s == 3, "one place, which takes three seconds"
    queue.enter(B)
    with pytest.raises(TooManyRequests) as caught:
        queue.enter(A)
    assert caught.value.retry_after_s == 36, "six of a's have to go, and every other place is b's"
    queue.now += 1000
    with pytest.raises(TooManyRequests) as caught:
        queue.enter(A)
    assert caught.value.retry_after_s == MOST_RETRY_S


def test_times_of_an_empty_queue_tell_nothing(queue: Queue) -> None:
    queue.enter(A)
    queue.leave(A)
    queue.now += 1000
    queue.enter(A, 10)
    with pytest.raises(Unavailable) as caught:
        queue.enter(A)
    assert caught.value.retry_after_s == 1


@given(comes=st.lists(st.sampled_from("aaaabcdef"), max_size=80))
def test_whoever_is_below_its_share_gets_in_until_twice_as_many_wait(comes: list[str]) -> None:
    queue, waiting = Queue(), dict[str, int]()
    for tenant in comes:
        share = 10 / len({*waiting, tenant})
        there, total = waiting.get(tenant, 0), sum(waiting.values())
        try:
            queue.enter(Caller(tenant))
        except Unavailable:
            assert total >= 10 and (there + 1 > share or total >= 20)
        else:
            assert total < 10 or (there + 1 <= share and total < 20)
            waiting[tenant] = there + 1


def test_one_whose_share_is_less_than_a_place_is_told_that_none_of_his_wait(queue: Queue) -> None:
    queue.enter(A, 10)
    with pytest.raises(TooManyRequests, match="0 of your requests are waiting"):
        queue.enter(Caller("light", weight=0.01))

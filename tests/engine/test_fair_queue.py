"""FairQueue: whose turn it is."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from graftwork.engine.fair_queue import FairQueue
from graftwork.engine.fair_shares import FairShares
from graftwork.engine.request import Caller
from graftwork.engine.sequence import Sequence
from support import rows


def row(name: str, tenant: str = "local", tokens: int = 10, *, priority: int = 0, weight: float = 1.0) -> Sequence:
    return rows.row(name, tokens, 1, caller=Caller(tenant, weight, priority))


def queue_of(*rows: Sequence) -> FairQueue:
    queue = FairQueue(FairShares())
    for arrival, one in enumerate(rows):
        one.arrival = arrival
        queue.add(one)
    queue.check()
    return queue


def names(queue: FairQueue) -> str:
    return "".join(one.id for one in queue)


def test_one_tenant_is_served_by_priority_then_as_it_came() -> None:
    queue = queue_of(row("c", priority=1), row("a"), row("d", priority=1), row("b"), row("0", priority=-5))
    assert names(queue) == "0abcd"


def test_tenants_take_turns_by_what_they_were_given() -> None:
    queue = queue_of(row("a", "x"), row("b", "x"), row("c", "x"), row("d", "y", 20), row("e", "y", 20))
    assert names(queue) == "adbec"


def test_a_priority_is_of_no_use_against_other_tenants() -> None:
    queue = queue_of(row("a", "x"), row("b", "x"), row("c", "y", priority=-99), row("d", "y", priority=-99))
    assert names(queue) == "acbd"


def test_a_weight_of_two_gets_twice_as_much() -> None:
    made = [row(name, "x", weight=2.0) for name in "abcd"] + [row(name, "y") for name in "efgh"]
    assert names(queue_of(*made)) == "aebfcdgh"


def test_a_row_that_comes_back_is_first_again_and_pays_once() -> None:
    first, second, other = row("a", "x"), row("b", "x"), row("c", "y")
    queue = queue_of(first, second, other)
    queue.take(first)
    first.tokens.append(7)
    first.paid += 1
    queue.put_back(first)
    assert names(queue) == "cab", "y has had nothing yet, and a costs nothing any more"
    queue.take(other)
    queue.take(first)
    assert queue._shares.turn("x")[0] == queue._shares.turn("y")[0] == 10
    queue.check()


def test_what_was_cached_is_not_paid_for() -> None:
    cached, whole = row("a", "x", 100), row("b", "y", 100)
    queue = queue_of(cached, whole)
    cached.num_computed = 64
    queue.take(cached)
    queue.take(whole)
    assert (queue._shares.turn("x")[0], queue._shares.turn("y")[0]) == (36, 100)


def test_rows_that_left_are_gone() -> None:
    gone, stays = row("a", "x"), row("b", "y")
    queue = queue_of(gone, stays)
    for _ in range(2):
        queue.discard(gone)
        assert names(queue) == "b" and len(queue) == 1 and queue.tenants == {"y"}
        queue.check()


@given(
    asked=st.lists(st.tuples(st.sampled_from("xyz"), st.integers(1, 50), st.integers(-2, 2)), min_size=1, max_size=30)
)
def test_the_order_shown_is_the_order_served(asked: list[tuple[str, int, int]]) -> None:
    made = [row(str(i), tenant, tokens, priority=priority) for i, (tenant, tokens, priority) in enumerate(asked)]
    queue = queue_of(*made)
    shown = list(queue)
    served = []
    while queue:
        served.append(next(iter(queue)))
        queue.take(served[-1])
        queue.check()
    assert served == shown

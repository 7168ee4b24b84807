"""FairShares: nothing is saved up, debts stay, and nobody's counter is kept for ever."""

from __future__ import annotations

from graftwork.engine.fair_shares import OUTPUT_WEIGHT, PROMPT_WEIGHT, FairShares, unfairness_bound
from graftwork.engine.request import Caller

A, B, C = Caller("a"), Caller("b"), Caller("c", weight=2.0)


def counter(shares: FairShares, caller: Caller) -> float:
    return shares.turn(caller.tenant)[0]


def test_tokens_count_by_kind_and_weight() -> None:
    shares = FairShares()
    for caller in (A, C):
        shares.wake(caller.tenant, [])
        shares.give(caller, 100)
        shares.generated(caller)
    assert counter(shares, A) == PROMPT_WEIGHT * 100 + OUTPUT_WEIGHT
    assert counter(shares, C) == counter(shares, A) / 2


def test_a_tenant_that_comes_back_has_saved_nothing_up() -> None:
    shares = FairShares()
    shares.wake("a", [])
    shares.give(A, 1000)
    shares.wake("b", ["a"])
    assert counter(shares, B) == counter(shares, A)
    shares.wake("c", [])
    assert counter(shares, C) == 0, "nobody waits, and the last row was given at 0"
    shares.wake("a", [])
    shares.give(A, 1)
    shares.wake("c", [])
    assert counter(shares, C) == 1000 * PROMPT_WEIGHT


def test_what_a_tenant_had_beyond_its_share_stays() -> None:
    shares = FairShares()
    shares.wake("a", [])
    shares.wake("b", ["a"])
    shares.give(A, 500)
    shares.wake("a", ["b"])
    assert counter(shares, A) == 500 > counter(shares, B)


def test_of_equals_the_one_served_longest_ago_is_next() -> None:
    shares = FairShares()
    for caller in (A, B, C):
        shares.wake(caller.tenant, [])
    shares.give(A, 0)
    shares.give(B, 0)
    assert sorted(["a", "b", "c"], key=shares.turn) == ["c", "a", "b"]


def test_idle_tenants_are_forgotten_unless_they_had_too_much() -> None:
    shares = FairShares()
    for index in range(100):
        shares.wake(str(index), [])
    shares.wake("a", [])
    shares.give(A, 11)
    shares.wake("b", [])
    shares.give(B, 10)
    shares.give(B, 10)
    shares.forget(["b"])
    assert counter(shares, A) == 11 and counter(shares, B) == 20, "the clock stands at the 10 of the last row given"
    shares.give(B, 10)
    shares.forget(["b"])
    assert counter(shares, A) == 0 and len(shares._counters) == 1
    shares.forget([])
    assert not shares._counters and not shares._served and counter(shares, B) == 0


def test_the_bound_is_twice_what_all_rows_of_one_may_take() -> None:
    assert unfairness_bound(100, 10, 4) == 2 * 4 * (100 + 2 * 10)

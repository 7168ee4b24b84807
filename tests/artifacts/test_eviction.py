"""next_to_leave: a tenant that floods a tier pushes out its own, and what is stale goes first."""

from __future__ import annotations

from collections import deque

from hypothesis import given
from hypothesis import strategies as st

from graftwork.artifacts.eviction import STALE_S, Holding, next_to_leave


def test_whoever_holds_most_gives() -> None:
    assert next_to_leave({"a": Holding(10, 0.0), "b": Holding(20, 5.0)}, 6.0) == "b"
    assert next_to_leave({"a": Holding(10, 4.0), "b": Holding(10, 5.0)}, 6.0) == "a", (
        "where they hold as much, the older"
    )


def test_what_is_stale_goes_first_whoevers_it_is() -> None:
    assert next_to_leave({"a": Holding(1, 0.0), "b": Holding(20, 9.0)}, STALE_S + 1) == "a"


@given(st.lists(st.sampled_from("abc"), max_size=60), st.integers(3, 12))
def test_a_flood_of_one_tenant_leaves_the_others_their_share(loads: list[str], places: int) -> None:
    """Things of one byte in a tier of `places`: after any loads, a flood of x takes no more than an even share."""
    held = {tenant: deque[float]() for tenant in "abcx"}
    now = 0.0
    for tenant in [*loads, *["x"] * 40]:
        now += 1.0
        if sum(map(len, held.values())) == places:
            holdings = {
                who: Holding(len(queue) + (who == tenant), queue[0]) for who, queue in held.items() if queue
            }  # fmt: skip
            held[next_to_leave(holdings, now)].popleft()
        held[tenant].append(now)
        before = {who: len(queue) for who, queue in held.items()}
    others = {who for who in "abc" if who in loads}
    share = places // (len(others) + 1)
    assert all(before[who] >= min(share, loads.count(who)) for who in others)

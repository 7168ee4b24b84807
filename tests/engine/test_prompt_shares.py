"""prompt_shares: the oldest prompt always gets on, short ones do not wait for long ones, and nothing is left over."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from graftwork.engine.prompt_shares import TenantShares, by_weight, prompt_shares
from graftwork.engine.request import Caller

WANTED = st.lists(st.integers(1, 2000), min_size=1, max_size=40)


def test_prompts_that_fit_are_taken_whole() -> None:
    assert prompt_shares([100, 50, 30], 200) == [100, 50, 30]
    assert prompt_shares([100, 128, 128], 200) == [100, 100, 0], "one is cut, not two"
    assert prompt_shares([], 200) == []


def test_short_prompts_share_half_with_a_long_one() -> None:
    assert prompt_shares([8000, 5000, 60, 20], 200) == [120, 0, 60, 20]
    assert prompt_shares([8000, 300, 150], 200) == [100, 0, 100]


def test_a_short_prompt_behind_long_ones_waits_for_few_steps() -> None:
    wanted, steps = [8000, 8000, 300], 0
    while wanted[2]:
        wanted = [left - share for left, share in zip(wanted, prompt_shares(wanted, 200), strict=True)]
        steps += 1
    assert steps == 3


@given(wanted=WANTED, budget=st.integers(0, 2000))
def test_nothing_is_left_over_and_the_oldest_gets_its_half(wanted: list[int], budget: int) -> None:
    shares = prompt_shares(wanted, budget)
    assert sum(shares) == min(budget, sum(wanted))
    assert all(0 <= share <= most for share, most in zip(shares, wanted, strict=True))
    assert shares[0] >= min(wanted[0], (budget + 1) // 2)


@given(wanted=WANTED, budget=st.integers(1, 300))
def test_every_prompt_ends_in_time_however_short_the_later_ones_are(wanted: list[int], budget: int) -> None:
    first, steps = wanted[0], 0
    while wanted[0]:
        shares = prompt_shares([*wanted, 1, 1, 1], budget)  # three more of the shortest at every step
        wanted = [left - share for left, share in zip(wanted, shares, strict=False)]
        steps += 1
    assert steps <= -(-first // ((budget + 1) // 2))


TENANTS = st.lists(st.tuples(st.integers(0, 3000), st.sampled_from([0.5, 1.0, 3.0]), st.booleans()), max_size=8)


@given(tenants=TENANTS, budget=st.integers(0, 2000))
def test_between_tenants_nothing_is_left_over_and_each_has_its_part(
    tenants: list[tuple[int, float, bool]], budget: int
) -> None:
    wanted, weights = [one[0] for one in tenants], [one[1] for one in tenants]
    shares = by_weight(wanted, weights, budget, [1.0] * len(tenants))
    assert sum(shares) == min(budget, sum(wanted))
    for share, most, weight in zip(shares, wanted, weights, strict=True):
        assert min(most, int(budget * weight / sum(weights))) <= share + len(tenants) + 1 and share <= most
    whole = by_weight(wanted, weights, budget, [50.0 * one[2] for one in tenants])
    assert sum(whole) == min(budget, sum(wanted)) and all(
        share <= most for share, most in zip(whole, wanted, strict=True)
    )


@given(
    prompts=st.lists(st.tuples(st.integers(1, 900), st.sampled_from("abc")), min_size=1, max_size=20),
    budget=st.integers(0, 500),
)
def test_parts_are_whole_numbers_of_what_is_there(prompts: list[tuple[int, str]], budget: int) -> None:
    parts, callers = TenantShares(), [Caller(tenant) for _, tenant in prompts]
    wanted = [count for count, _ in prompts]
    for _ in range(3):
        shares = parts.shares(wanted, callers, budget)
        assert sum(shares) == min(budget, sum(wanted))
        assert all(0 <= share <= most for share, most in zip(shares, wanted, strict=True))
        parts.taken(shares, callers, budget)


def test_a_short_prompt_is_done_at_once_beside_anothers_long_one_and_pays_it_back() -> None:
    parts, callers = TenantShares(), [Caller("long"), Caller("short")]
    taken = []
    for _ in range(4):
        taken.append(parts.shares([5000, 80], callers, 100))
        parts.taken(taken[-1], callers, 100)
    assert taken == [[20, 80], [80, 20], [20, 80], [80, 20]]


@given(short=st.integers(1, 200), budget=st.integers(10, 200), weight=st.sampled_from([0.5, 1.0, 2.0]))
def test_over_many_steps_whoever_floods_with_short_prompts_gets_no_more_than_its_part(
    short: int, budget: int, weight: float
) -> None:
    parts, callers, long = TenantShares(), [Caller("long", weight), Caller("short")], 0
    for _ in range(200):
        shares = parts.shares([10**6, short], callers, budget)
        parts.taken(shares, callers, budget)
        long += shares[0]
    assert long >= 200 * budget * weight / (1 + weight) * 0.9 - 2 * budget

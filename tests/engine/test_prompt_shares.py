"""prompt_shares: the oldest prompt always gets on, short ones do not wait for long ones, and nothing is left over."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from graftwork.engine.prompt_shares import prompt_shares

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

"""StepCost: it learns a line from noisy steps, and the budget that follows from it keeps a step within the target."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graftwork.engine.step_cost import LEAST_PROMPT_TOKENS, ROUND_TO, StepCost, prompt_budget

FIXED_S, TOKEN_S = 0.008, 0.00025
COSTS = st.builds(StepCost, st.floats(0, 1), st.floats(1e-6, 0.1))


def learned(steps: list[tuple[int, int]], noise: float = 0.0) -> StepCost:
    cost, draw = StepCost(), random.Random(1)
    for decoding, prompt_tokens in steps:
        seconds = FIXED_S + TOKEN_S * (decoding + prompt_tokens)
        cost = cost.after(decoding, prompt_tokens, seconds * (1 + noise * draw.random()))
    return cost


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_it_learns_what_steps_cost(noise: float) -> None:
    mixed = [(0, 128), *[(draw, 0) for draw in range(1, 33)], *[(32, 128), (32, 0), (32, 300)] * 20]
    cost = learned(mixed, noise)
    for tokens in (32, 160, 332):
        assert cost.of(tokens) == pytest.approx(FIXED_S + TOKEN_S * tokens, rel=0.1 + noise)


def test_the_first_step_is_believed_and_a_short_prompt_says_little() -> None:
    cost = StepCost().after(0, 100, 0.05)
    assert cost == StepCost(0.0, 0.0005)
    assert cost.after(0, 4, 0.012).token_s == pytest.approx(0.0005, rel=0.05)


def test_a_step_that_was_held_up_is_not_believed() -> None:
    cost = learned([(0, 128), *[(8, 0)] * 20, *[(8, 128)] * 20])
    assert cost.after(8, 0, 30.0).of(8) < 1.3 * cost.of(8)
    assert cost.after(8, 128, 30.0).of(136) < 1.3 * cost.of(136)


def test_it_comes_down_again() -> None:
    high = StepCost(0.5, 0.01)
    for _ in range(60):
        high = high.after(32, 64, FIXED_S + TOKEN_S * 96).after(32, 0, FIXED_S + TOKEN_S * 32)
    assert high.of(96) == pytest.approx(FIXED_S + TOKEN_S * 96, rel=0.2)


def test_all_is_given_where_nobody_waits_for_a_token() -> None:
    cost = StepCost(0.01, 0.001)
    assert prompt_budget(cost, 0, 8, 512, 0.1) == 512
    assert prompt_budget(cost, 8, 8, 512, 0.0) == 512
    assert prompt_budget(StepCost(), 8, 8, 512, 0.1) == 512


def test_where_the_target_is_out_of_reach_prompts_get_their_share_of_the_time() -> None:
    cost = StepCost(0.061, 0.002)
    assert prompt_budget(cost, 4, 4, 512, 0.1) == 60  # 69 ms alone, 189 ms with 64 tokens
    assert prompt_budget(cost, 4, 32, 512, 0.1) == 140, "more wait to decode: the batch is filled sooner"


@given(
    cost=COSTS,
    decoding=st.integers(1, 64),
    waiting=st.integers(0, 64),
    most=st.integers(0, 1000),
    target_s=st.floats(0.001, 2),
)
def test_a_step_is_expected_to_end_in_time(
    cost: StepCost, decoding: int, waiting: int, most: int, target_s: float
) -> None:
    count = prompt_budget(cost, decoding, decoding + waiting, most, target_s)
    assert min(LEAST_PROMPT_TOKENS, most) <= count <= most
    if count > LEAST_PROMPT_TOKENS:
        assert cost.of(decoding + count) <= max(target_s, 3 * cost.of(decoding + waiting)) * 1.000001
        assert count == most or (decoding + count) % ROUND_TO == 0


@given(
    steps=st.lists(
        st.tuples(st.integers(0, 64), st.integers(0, 512), st.floats(0.0001, 10)).filter(
            lambda one: one[0] + one[1] > 0
        )
    )
)
def test_what_it_expects_is_never_nothing_or_less(steps: list[tuple[int, int, float]]) -> None:
    cost = StepCost()
    for decoding, prompt_tokens, seconds in steps:
        cost = cost.after(decoding, prompt_tokens, seconds)
        assert cost.fixed_s >= 0 and cost.token_s > 0

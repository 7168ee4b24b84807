"""Draws follow the filtered distribution, and depend on nothing but the row, the seed and the position."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graftwork.engine import token_source
from graftwork.engine.sampling_params import SamplingParams
from graftwork.engine.token_source import draw_tokens, uniform_bits
from support.scale import times

VOCAB = 300
FULL = 1 << 53


def random_logits(rows: int, vocab: int = VOCAB, *, seed: int = 0, spread: float = 3.0) -> torch.Tensor:
    return torch.randn(rows, vocab, generator=torch.Generator().manual_seed(seed)) * spread


def plainly(logits: torch.Tensor, params: list[SamplingParams], bits: list[int]) -> list[int]:
    """As other devices draw."""
    unit = 2.0 ** (53 - logits.shape[-1].bit_length())
    return token_source.draw_plainly(token_source._weights(logits, params, unit), params, bits, unit)


def support(logits: torch.Tensor, params: SamplingParams, draws: int = 2000) -> set[int]:
    """Tokens that evenly spaced draws reach: all with at least one draw's share of probability."""
    bits = [draw * (FULL // draws) for draw in range(draws)]
    return set(draw_tokens(logits.repeat(draws, 1), [params] * draws, bits))


def reference(logits: torch.Tensor, params: SamplingParams) -> torch.Tensor:
    """The filtered distribution of one row in plain float64."""
    probs = (logits.double() / params.temperature).softmax(-1)
    probs = torch.where(probs >= params.min_p * probs.max(), probs, 0)
    if 0 < params.top_k < len(probs):
        probs = torch.where(probs >= probs.topk(params.top_k).values[-1], probs, 0)
    if params.top_p < 1:
        ordered = (probs / probs.sum()).sort(descending=True).values
        last = int((ordered.cumsum(-1) < params.top_p).sum())
        probs = torch.where(probs / probs.sum() >= ordered[last], probs, 0)
    return probs / probs.sum()


def test_uniform_bits_are_a_pure_function_with_known_values() -> None:
    # SplitMix64's published first outputs for state 0 pin the mixing step.
    assert token_source._mix(0x9E3779B97F4A7C15) == 0xE220A8397B1DCDAF
    assert uniform_bits(7, 3) == uniform_bits(7, 3)
    assert len({uniform_bits(seed, position) for seed in range(-50, 50) for position in range(50)}) == 5000


def test_uniform_bits_are_uniform_over_positions_and_over_neighbouring_seeds() -> None:
    for values in (
        [uniform_bits(1, position) for position in range(4000)],
        [uniform_bits(seed, 0) for seed in range(4000)],
    ):
        buckets = [0] * 16
        for value in values:
            assert 0 <= value < FULL
            buckets[value >> 49] += 1
        assert sum((count - 250) ** 2 / 250 for count in buckets) < 45  # chi-squared, 15 degrees, p = 1e-4


@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(),
        SamplingParams(temperature=0.7, top_p=0.9),
        SamplingParams(temperature=1.5, top_k=20),
        SamplingParams(min_p=0.1),
        SamplingParams(top_k=50, top_p=0.8, min_p=0.01),
        SamplingParams(temperature=3.0, top_k=200, top_p=0.99),
    ],
)
def test_frequencies_are_those_of_the_filtered_distribution(params: SamplingParams) -> None:
    logits = random_logits(1)
    draws = 1024  # evenly spaced: each token's count is its share to within one
    tokens = draw_tokens(logits.repeat(draws, 1), [params] * draws, [n * (FULL // draws) for n in range(draws)])
    counts = torch.bincount(torch.tensor(tokens), minlength=VOCAB)
    assert (counts - reference(logits[0], params) * draws).abs().max() < 1.5


def test_top_p_keeps_the_smallest_set_that_reaches_it() -> None:
    logits = torch.tensor([[0.5, 0.3, 0.15, 0.05]]).log()
    assert support(logits, SamplingParams(top_p=0.79)) == {0, 1}
    assert support(logits, SamplingParams(top_p=0.81)) == {0, 1, 2}
    assert support(logits, SamplingParams(top_p=0.0)) == {0}


def test_top_p_is_a_part_of_what_top_k_and_min_p_left() -> None:
    logits = torch.tensor([[0.4, 0.3, 0.2, 0.1]]).log()
    assert support(logits, SamplingParams(top_k=2, top_p=0.5)) == {0}  # 0.4 of 0.7
    assert support(logits, SamplingParams(min_p=0.7, top_p=0.6)) == {0, 1}


def test_top_k_and_min_p_keep_what_they_say() -> None:
    logits = torch.tensor([[0.4, 0.3, 0.2, 0.1]]).log()
    assert support(logits, SamplingParams(top_k=3)) == {0, 1, 2}
    assert support(logits, SamplingParams(min_p=0.51)) == {0, 1}
    assert support(logits, SamplingParams(top_k=-1)) == support(logits, SamplingParams(top_k=99)) == {0, 1, 2, 3}


def test_temperature_is_applied_before_the_filters() -> None:
    logits = torch.tensor([[0.4, 0.3, 0.2, 0.1]]).log()
    assert support(logits, SamplingParams(temperature=0.1, top_p=0.9)) == {0}
    assert support(logits, SamplingParams(temperature=1e-4)) == {0}
    assert support(logits, SamplingParams(temperature=1e38)) == {0, 1, 2, 3}


def test_token_with_minus_infinity_is_never_drawn() -> None:
    logits = torch.tensor([[-torch.inf, 0.0, -torch.inf, 0.0]])
    assert support(logits, SamplingParams()) == {1, 3}


def test_draw_at_either_end_finds_the_first_and_the_last_token_kept() -> None:
    logits = torch.tensor([[-torch.inf, 0.0, 0.0, -torch.inf]])
    params = [SamplingParams()]
    assert draw_tokens(logits.clone(), params, [0]) == [1]
    assert draw_tokens(logits.clone(), params, [FULL - 1]) == [2]


MIXED = [
    SamplingParams(temperature=temperature, top_p=top_p, top_k=top_k, min_p=min_p)
    for temperature, top_p, top_k, min_p in itertools.product((0.5, 1.3), (1.0, 0.95, 0.3), (0, 5, 200), (0.0, 0.02))
]


@pytest.mark.parametrize("vocab", [1, 7, 129, 301])
def test_row_draws_the_same_token_alone_and_in_any_batch(vocab: int) -> None:
    logits = random_logits(len(MIXED), vocab, seed=vocab)
    bits = [uniform_bits(row, 5) for row in range(len(MIXED))]
    together = draw_tokens(logits.clone(), MIXED, bits)
    alone = [draw_tokens(logits[row : row + 1].clone(), [MIXED[row]], [bits[row]])[0] for row in range(len(MIXED))]
    backwards = draw_tokens(logits.flip(0), MIXED[::-1], bits[::-1])[::-1]
    assert together == alone == backwards == plainly(logits.clone(), MIXED, bits)


@settings(deadline=None, max_examples=times(40, 500))
@given(st.integers(0, 2**31), st.sampled_from(MIXED), st.sampled_from([0.1, 3.0, 20.0]), st.booleans())
def test_short_head_and_whole_sort_draw_alike(seed: int, params: SamplingParams, spread: float, ties: bool) -> None:
    logits = random_logits(4, seed=seed, spread=spread)
    if ties:
        logits = logits.round()
    bits = [uniform_bits(seed, row) for row in range(4)]
    drawn = []
    with pytest.MonkeyPatch.context() as patch:
        for head in (1, 8, 128, VOCAB):
            patch.setattr(token_source, "HEAD", head)
            drawn.append(plainly(logits.clone(), [params] * 4, bits))
    drawn.append(draw_tokens(logits.clone(), [params] * 4, bits))
    assert all(tokens == drawn[0] for tokens in drawn)

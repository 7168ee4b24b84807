"""The draw of one token per row, against whole numbers of any size in Python."""

from __future__ import annotations

from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graftwork.kernels import draw_cpu
from support.scale import times

FULL = 1 << 53


def expected(weights: list[int], bits: int, top_k: int, top_p: float, least: float) -> int:
    kept = [weight if weight >= least else 0 for weight in weights]
    if 0 < top_k < len(kept):
        floor = sorted(kept, reverse=True)[top_k - 1]
        kept = [weight if weight >= floor else 0 for weight in kept]
    if top_p < 1:
        wanted, reached, floor = top_p * sum(kept), 0, 0
        for floor in sorted(kept, reverse=True):
            reached += floor
            if reached >= wanted:
                break
        kept = [weight if weight >= floor else 0 for weight in kept]
    target, reached = bits * sum(kept) // FULL, 0
    for token, weight in enumerate(kept):
        reached += weight
        if reached > target:
            return token
    raise AssertionError("the draw is below the whole")


@st.composite
def rows(draw: st.DrawFn) -> list[int]:
    """Weights of one row as float32 holds them, with ties and zeros; the largest is 2^20."""
    width = draw(st.sampled_from([1, 3, 64, 65, 600, 1300]))
    some = draw(
        st.lists(st.sampled_from([0, 1, 3, 100, 2**10, 2**16 + 1, 2**20 - 1]) | st.integers(0, 2**20), max_size=9)
    )
    spread = draw(st.sampled_from([0, 1, 7919]))
    weights = [(spread * place * place) % 2**18 for place in range(width)]
    for place, weight in enumerate(some):
        weights[place * 31 % width] = weight
    weights[draw(st.integers(0, width - 1))] = 2**20
    return weights


CUTS = st.tuples(
    st.integers(0, FULL - 1) | st.sampled_from([0, FULL - 1]),
    st.integers(-1, 700),
    st.sampled_from([0.0, 1e-9, 0.3, 0.5, 0.9, 0.999, 1.0]) | st.floats(0, 1),
    st.sampled_from([0.0, 1.0, 100.0, 2.0**16, 2.0**20]),
)


@settings(deadline=None, max_examples=times(150, 3000))
@given(weights=rows(), cuts=st.lists(CUTS, min_size=1, max_size=5))
def test_it_is_the_token_that_exact_numbers_give(weights: list[int], cuts: list[tuple[int, int, float, float]]) -> None:
    table = torch.tensor([weights] * len(cuts), dtype=torch.float32)
    bits, top_k, top_p, least = (list(column) for column in zip(*cuts, strict=True))
    drawn = draw_cpu.draw(table, 2**20, bits, top_k, top_p, least)
    assert drawn == [expected(weights, *one) for one in cuts]


@pytest.mark.parametrize("rows", [1, 40])
def test_a_whole_vocabulary_is_drawn_by_its_shares(rows: int) -> None:
    weights = (torch.rand(1, 50_000, generator=torch.Generator().manual_seed(0)) * 2**35).floor()
    weights[0, 777] = 2.0**35
    table = weights.repeat(rows, 1)
    bits = [FULL // rows * row for row in range(rows)]
    cumulative = [int(one) for one in weights[0].double().cumsum(-1)]
    drawn = draw_cpu.draw(table, 2**35, bits, [0] * rows, [1.0] * rows, [0.0] * rows)
    for token, luck in zip(drawn, bits, strict=True):
        share = Fraction(luck * cumulative[-1], FULL)
        assert (cumulative[token - 1] if token else 0) <= share < cumulative[token]

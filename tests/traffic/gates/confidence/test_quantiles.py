"""Confidence sequences of quantiles: false alarms under continuous looks, ties, what more evidence does."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graftwork.traffic.gates.confidence.quantiles import quantile, ranks

ALPHA = 0.05


@pytest.mark.parametrize("p", [0.5, 0.95, 0.99])
def test_the_true_quantile_is_rarely_ever_outside_though_one_looks_after_every_answer(p: float) -> None:
    below = (np.random.default_rng(1).random((1000, 1000)) < p).cumsum(axis=1)  # of what is at most the p-quantile
    allowed = np.array([ranks(n, p, ALPHA) for n in range(1, 1001)])
    outside = ((below < allowed[:, 0]) | (below > allowed[:, 1])).any(axis=1)
    assert outside.mean() <= ALPHA


def test_bounds_come_closer_and_hold_the_quantile() -> None:
    values = np.random.default_rng(2).lognormal(0, 0.5, 4000)
    truth, widths = math.exp(0.5 * 1.6448536), []
    for n in (300, 1000, 4000):
        low, high = quantile(values[:n], 0.95, ALPHA)
        assert low < truth < high
        widths.append(high - low)
    assert widths == sorted(widths, reverse=True) and widths[-1] < 0.5


def test_few_values_bound_nothing_above() -> None:
    assert quantile([], 0.95, ALPHA) == (-math.inf, math.inf)
    low, high = quantile(np.arange(20.0), 0.95, ALPHA)
    assert high == math.inf and low < 19


def test_ties_are_no_certainty_about_what_lies_beyond() -> None:
    low, high = quantile([1.0] * 100, 0.99, ALPHA)
    assert (low, high) == (1.0, math.inf)
    assert quantile([1.0] * 1000, 0.5, ALPHA) == (1.0, 1.0)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(0, 100), min_size=1, max_size=200), st.floats(0, 100))
def test_order_does_not_matter_and_a_slower_answer_never_lowers_a_bound(values: list[float], other: float) -> None:
    found = quantile(values, 0.5, ALPHA)
    assert quantile(sorted(values), 0.5, ALPHA) == found
    slower = quantile([max(values[0], other), *values[1:]], 0.5, ALPHA)
    assert slower.low >= found.low and slower.high >= found.high

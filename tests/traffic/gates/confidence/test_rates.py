"""Confidence sequences of rates: false alarms under continuous looks, power, and what more evidence does to bounds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graftwork.traffic.gates.confidence.rates import Count, log_martingale, rate, rate_difference, rate_ratio

ALPHA = 0.05
RUNS, LENGTH = 1500, 800
counts = st.integers(1, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


def successes(p: float, seed: int, *, runs: int = RUNS) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """How many of the first 1, 2, 3 … answers had it, [runs, LENGTH]."""
    return (np.random.default_rng(seed).random((runs, LENGTH)) < p).cumsum(axis=1)


@pytest.mark.parametrize("p", [0.01, 0.3, 0.95])
def test_the_true_rate_is_rarely_ever_outside_though_one_looks_after_every_answer(p: float) -> None:
    k, n = successes(p, seed=1), np.arange(1, LENGTH + 1)
    outside = (log_martingale(k, n, p) > -math.log(ALPHA)).any(axis=1)
    assert outside.mean() <= ALPHA
    looks = np.array([1, 2, 5, 10, 30, 100, 300, 800]) - 1
    low, high = rate(k[:, looks], n[looks], ALPHA)
    wrong = (low > p) | (p > high)
    assert (wrong == (log_martingale(k[:, looks], n[looks], p) > -math.log(ALPHA))).all()  # by both ways the same


def test_equal_arms_rarely_ever_differ_though_one_looks_after_every_answer() -> None:
    n = np.arange(1, LENGTH + 1)
    mine, others = successes(0.9, seed=2), successes(0.9, seed=3)
    pooled = (mine + others) / (2 * n)  # of all pairs of equal rates the likeliest
    evidence = log_martingale(mine, n, pooled) + log_martingale(others, n, pooled)
    assert (evidence > -math.log(ALPHA)).any(axis=1).mean() <= ALPHA
    for run in evidence.max(axis=1).argsort()[-30:]:  # 0 is within just as long as one pair of equal rates is
        at = int(evidence[run].argmax())
        for factor in (0.9, 1.1):
            alpha = math.exp(-factor * evidence[run, at])
            bounds = rate_difference(Count(mine[run, at], n[at]), Count(others[run, at], n[at]), alpha)
            assert (bounds.low <= 0 <= bounds.high) == (factor > 1)


def test_numbers_between_bounds_need_not_be_0_or_1() -> None:
    x = np.random.default_rng(4).beta(4, 2, (RUNS, LENGTH)).cumsum(axis=1)
    outside = (log_martingale(x, np.arange(1, LENGTH + 1), 4 / 6) > -math.log(ALPHA)).any(axis=1)
    assert outside.mean() <= ALPHA


def test_a_drop_from_98_to_90_percent_is_found_within_600_answers_nine_times_of_ten() -> None:
    mine, others = successes(0.9, 5, runs=60), successes(0.98, 6, runs=60)
    found = [
        rate_difference(Count(a, 600), Count(b, 600), ALPHA).high < 0
        for a, b in zip(mine[:, 599], others[:, 599], strict=True)
    ]
    assert np.mean(found) >= 0.9


@settings(max_examples=50, deadline=None)
@given(counts, st.integers(1, 50))
def test_more_successes_move_bounds_up_and_more_failures_down(count: tuple[int, int], more: int) -> None:
    k, n = count
    low, high = rate([k, k + more, k], [n, n + more, n + more], ALPHA)
    assert low[0] <= low[1] + 1e-9 and high[0] <= high[1] + 1e-9
    assert low[2] <= low[0] + 1e-9 and high[2] <= high[0] + 1e-9


@settings(max_examples=15, deadline=None)
@given(counts, counts)
def test_two_arms_are_compared_the_same_from_either_side(one: tuple[int, int], other: tuple[int, int]) -> None:
    first, second = Count(*one), Count(*other)
    there, back = rate_difference(first, second, ALPHA), rate_difference(second, first, ALPHA)
    assert there == pytest.approx((-back.high, -back.low), abs=1e-6)
    assert there.low - 1e-9 <= first.rate - second.rate <= there.high + 1e-9
    ratio = rate_ratio(first, second, ALPHA)
    if second.rate:
        assert ratio.low - 1e-9 <= first.rate / second.rate <= ratio.high * (1 + 1e-9)
    assert (ratio.low > 1) == (there.low > 0) or abs(there.low) < 1e-6  # both say whether it is more


def test_without_answers_nothing_is_known() -> None:
    assert [float(bound) for bound in rate(0, 0, ALPHA)] == [0, 1]
    assert rate_difference(Count(0, 0), Count(5, 5), ALPHA) == (-math.inf, math.inf)
    assert rate_ratio(Count(5, 50), Count(0, 50), ALPHA).high == math.inf

"""Asymptotic confidence sequences of means: false alarms under continuous looks, power, two arms, ratios."""

from __future__ import annotations

import math

import numpy as np
import pytest

from graftwork.traffic.gates.confidence.means import EVERYTHING, LEAST, Moments, mean, mean_difference, mean_ratio

ALPHA = 0.05
LOOKS = np.unique(np.geomspace(LEAST, 1000, 12).astype(int))


@pytest.mark.parametrize("draw", ["normal", "exponential"])
def test_equal_arms_rarely_ever_differ_at_any_look(draw: str) -> None:
    random = np.random.default_rng(1)
    alarms = 0
    for _ in range(300):
        one, other = getattr(random, draw)(1, size=(2, 1000))
        pairs = [(Moments.of(one[:n]), Moments.of(other[:n])) for n in LOOKS]
        bounds = [mean_difference(first, second, ALPHA) for first, second in pairs]
        alarms += any(not found.low <= 0 <= found.high for found in bounds)
    assert alarms / 300 <= ALPHA


def test_one_standard_deviation_less_is_found_within_100_answers() -> None:
    random = np.random.default_rng(2)
    found = [
        mean_difference(Moments.of(random.normal(-1, 1, 100)), Moments.of(random.normal(0, 1, 100)), ALPHA).high < 0
        for _ in range(200)
    ]
    assert np.mean(found) >= 0.99


def test_a_ratio_agrees_with_its_difference_and_its_mean() -> None:
    random = np.random.default_rng(3)
    one, other = Moments.of(random.normal(12, 3, 500)), Moments.of(random.normal(10, 3, 500))
    ratio, difference = mean_ratio(one, other, ALPHA), mean_difference(one, other, ALPHA)
    assert ratio.low < one.mean / other.mean < ratio.high
    assert (ratio.low > 1) == (difference.low > 0)
    sure = mean_ratio(one, Moments(500, 10.0, 0.0), ALPHA)  # a second arm without variance only scales
    alone = mean(one, ALPHA)
    assert sure.low >= alone.low / 10 - 0.02 and sure.high <= alone.high / 10 + 0.02


def test_what_is_not_known_has_no_bounds() -> None:
    few, many = Moments.of([1.0]), Moments.of(np.arange(500.0))
    assert mean_difference(few, many, ALPHA) == mean_ratio(many, few, ALPHA) == EVERYTHING
    assert mean(few, ALPHA) == EVERYTHING
    wide = Moments(500, 0.1, 100.0)  # stable may be 0
    assert mean_ratio(many, wide, ALPHA) == EVERYTHING
    assert not math.isfinite(Moments.of([1e308] * 200).mean)

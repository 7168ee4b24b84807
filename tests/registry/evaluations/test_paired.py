"""Paired tests against what they are by definition, and how often they raise a false alarm."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from graftwork.registry.evaluations import paired
from graftwork.registry.evaluations.paired import holm, paired_test


def test_binary_scores_are_tested_where_they_differ() -> None:
    before, after = [1] * 5 + [0] * 10 + [1, 0], [1] * 5 + [0] * 2 + [1] * 8 + [0, 0]
    result = paired_test(before, after)
    assert result.test == "McNemar" and result.matched == 17
    assert result.mean_difference == pytest.approx(7 / 17)
    assert result.p == pytest.approx(2 * (1 + 9) / 2**9)  # 8 of 9, or more: both sides of the binomial
    assert result.low < result.mean_difference < result.high


def test_other_scores_are_tested_by_every_flip_of_their_signs() -> None:
    difference = [0.5, 0.25, 0.25, -0.125, 0.75, 0.0, 1.0]
    sums = [
        abs(sum(sign * one for sign, one in zip(signs, difference, strict=True)))
        for signs in product((1, -1), repeat=7)
    ]
    expected = sum(one >= abs(sum(difference)) for one in sums) / len(sums)
    result = paired_test([0.125] * 7, [0.125 + one for one in difference])
    assert result.test == "sign-flip permutation" and result.p == pytest.approx(expected)


def test_random_flips_and_the_limit_of_many_say_what_all_flips_say(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(5)
    before = random.random(12)
    after = before + random.normal(0.1, 0.3, 12)
    exact = paired_test(list(before), list(after))
    monkeypatch.setattr(paired, "_ALL_FLIPS", 0)
    assert paired_test(list(before), list(after)).p == pytest.approx(exact.p, abs=0.02)
    many_before = random.random(3000)
    many_after = many_before + random.normal(0.008, 0.3, 3000)
    sampled = paired_test(list(many_before), list(many_after))
    monkeypatch.setattr(paired, "LARGE", 1000)
    limit = paired_test(list(many_before), list(many_after))
    assert limit.p == pytest.approx(sampled.p, abs=0.02)
    assert (limit.low, limit.high) == pytest.approx((sampled.low, sampled.high), abs=0.001)


@pytest.mark.parametrize("count", [2, 50])
def test_the_same_scores_are_no_difference(count: int) -> None:
    for scores in ([1.0] * count, list(np.linspace(0.1, 0.9, count))):
        result = paired_test(scores, scores)
        assert (result.p, result.low, result.high, result.mean_difference) == (1.0, 0.0, 0.0, 0.0)


def test_of_versions_that_do_not_differ_one_in_twenty_looks_as_if(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paired, "RESAMPLES", 199)
    random = np.random.default_rng(7)
    pairs = [(random.normal(0, 1, 30), random.normal(0, 1, 30)) for _ in range(300)]
    alarms = sum(paired_test(list(before), list(after)).p < 0.05 for before, after in pairs)
    assert 5 <= alarms <= 27  # 15 expected; outside in fewer than 1 of 200 such runs


def test_the_interval_covers_the_truth_as_often_as_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paired, "RESAMPLES", 199)
    random = np.random.default_rng(11)
    results = [paired_test([0.0] * 60, list(random.normal(0.3, 1, 60))) for _ in range(200)]
    covered = sum(result.low <= 0.3 <= result.high for result in results)
    assert 178 <= covered <= 199  # 190 expected


def test_p_values_are_corrected_together_by_holm() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([]) == []

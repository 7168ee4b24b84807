"""What many diffs say of a pair of versions."""

from __future__ import annotations

import random

import pytest

from graftwork.traffic.shadows.diff import Diff
from graftwork.traffic.shadows.report import WORST, quantile, report_of
from support.copies import SHADOWS, copied


def test_a_pair_in_numbers() -> None:
    copies = [copied(number, took_s=number / 100) for number in range(1, 91)]
    copies += [copied(number, shadow="no", logprob=-0.3) for number in range(91, 96)]
    copies += [copied(number, shadow=None, error="generation_failed") for number in range(96, 99)]
    copies += [copied(99, shadow=None, error="timed_out"), copied(100, shadow="Yes ", sampled=True)]
    (pair,) = report_of(map(Diff.of, copies))
    assert (pair["copies"], pair["compared"], pair["errors"], pair["timeouts"], pair["sampled"]) == (100, 96, 3, 1, 1)
    assert (pair["failure"]["rate"], pair["exact"]["rate"], pair["normalised"]["count"]) == (0.04, 90 / 96, 91)
    assert pair["exact"]["low"] < 90 / 96 < pair["exact"]["high"] < 1
    assert (pair["first"], pair["last"]) == (copies[0].at, copies[-1].at)
    assert (pair["similarity"]["p50"], pair["similarity"]["p5"], pair["length_ratio"]["p5"]) == (1.0, 0.0, 2 / 3)
    assert (pair["latency_s"]["answer"]["p95"], pair["latency_s"]["shadow"]["p95"]) == (0.1, 0.86)
    assert pair["mean_logprob"] == {"answer": pytest.approx(-0.1), "shadow": pytest.approx(-0.3)}
    worst = [one["request_id"] for one in pair["worst"]]
    assert worst == ["r99", "r98", "r97", "r96", "r95", "r94", "r93", "r92", "r91", "r100"] and len(worst) == WORST


def test_pairs_are_apart_and_the_newest_is_first() -> None:
    other = copied(9, rollout="support/2")
    newer = [Diff.of(copied(1)), Diff.of(other)]
    third = Diff(**{**Diff.of(copied(5)).__dict__, "shadow_digest": "sha256:" + "c" * 64})
    first, second = report_of([third, *newer])
    assert (first["shadow_digest"], first["rollouts"]) == (SHADOWS, ["support/1", "support/2"])
    assert second["copies"] == 1 and report_of([]) == []


def test_nothing_was_compared() -> None:
    (pair,) = report_of([Diff.of(copied(shadow=None, error="timed_out"))])
    assert (pair["exact"]["rate"], pair["exact"]["low"], pair["exact"]["high"]) == (None, 0.0, 1.0)
    assert pair["similarity"]["p50"] is None and pair["worst"][0]["outcome"] == "timeout"


def test_intervals_of_exact_rates_hold_however_often_one_looks() -> None:
    chance, outside, runs = random.Random(7), 0, 60
    for _ in range(runs):
        diffs = list[Diff]()
        missed = False
        for number in range(1, 120):
            diffs.append(Diff.of(copied(number, shadow="yes" if chance.random() < 0.8 else "no")))
            if number % 10 == 0:
                rate = report_of(diffs)[0]["exact"]
                missed = missed or not rate["low"] <= 0.8 <= rate["high"]
        outside += missed
    assert outside <= 7, "5 % of 60 are 3; so many more are one run in a hundred"


def test_quantiles_are_values_that_were_there() -> None:
    assert [quantile([3, 1, 2], p) for p in (0.0, 0.34, 0.5, 1.0)] == [1, 2, 2, 3]
    assert quantile([], 0.5) is None

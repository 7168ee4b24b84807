"""The gate of drift: what is alike passes, what moved fails, and chance rarely looks like drift."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graftwork.protocol.evaluation_parts import Distributions
from graftwork.traffic.gates.confidence.rates import rate
from graftwork.traffic.gates.distances import bounded, distance
from graftwork.traffic.gates.evidence import Arm
from graftwork.traffic.gates.gates import judge_metric
from graftwork.traffic.verdict import Verdict
from support.analysis import answers, each, evidence, metric

EDGES = [0, 20, 40, 60, 80, 100, 120, 140, 160, 200]
DISTANCES = {"psi": "0.25", "js": "0.1", "ks": "0.15"}


def lengths(mean: float, n: int, seed: int) -> list[int]:
    return [int(length) for length in np.random.default_rng(seed).normal(mean, 25, n).clip(1)]


def baseline(**fields: Any) -> Distributions:
    return Distributions.model_validate(fields)


def counted(values: list[int]) -> dict[str, Any]:
    counts, _ = np.histogram(values, EDGES)
    return {"edges": EDGES, "counts": counts.tolist(), "above": sum(one >= 200 for one in values)}


def look(of: str, kind: str, against: str, candidate: Arm, stable: Arm | None = None, **fields: Any) -> Verdict:
    part = {"of": of, "distance": kind, "against": against}
    gate = metric({"drift": part}, successCondition=f"result <= {DISTANCES[kind]}")
    return judge_metric(gate, evidence(candidate, stable, **fields), 0.05)


@pytest.mark.parametrize("kind", DISTANCES)
@pytest.mark.parametrize("against", ["baseline", "stable"])
def test_what_is_alike_passes_and_what_moved_fails(kind: str, against: str) -> None:
    before = lengths(100, 5000, seed=1)
    known = {"baseline": baseline(prompt_tokens=counted(before))}
    stable = each("prompt_tokens", before)
    alike, moved = each("prompt_tokens", lengths(100, 5000, 2)), each("prompt_tokens", lengths(170, 1000, 3))
    assert look("prompt_tokens", kind, against, alike, stable, **known).result == "pass"
    assert look("prompt_tokens", kind, against, moved, stable, **known).result == "fail"
    few = each("prompt_tokens", lengths(100, 60, 4))
    assert look("prompt_tokens", kind, against, few, stable, **known).result == "inconclusive"


def test_what_lies_where_the_baseline_has_nothing_is_seen() -> None:
    known = baseline(prompt_tokens={"edges": [0, 10, 20, 30, 40], "counts": [0, 0, 900, 0]})
    for place in (5, 35):
        assert (
            look("prompt_tokens", "psi", "baseline", each("prompt_tokens", [place] * 300), baseline=known).result
            == "fail"
        )
    assert look("prompt_tokens", "psi", "baseline", each("prompt_tokens", [25] * 900), baseline=known).result == "pass"


def test_tokens_and_their_log_probabilities_are_compared_as_they_were_counted() -> None:
    tokens = {"counts": {"the": 5000, "of": 3000, "cat": 1000}, "other": 1000}
    logprob = {"edges": [-4, -2, -1, 0], "counts": [1000, 2000, 6000], "below": 500}
    known, good = baseline(tokens=tokens, logprob=logprob), answers(1000)
    same = Arm(good.observations, distributions=known)
    other = Arm(
        good.observations,
        distributions=baseline(
            tokens={"counts": {"chien": 9000, "the": 1000}}, logprob={**logprob, "counts": [6000, 1000, 1000]}
        ),
    )
    for of in ("tokens", "logprob"):
        assert look(of, "psi", "baseline", same, baseline=known).result == "pass"
        assert look(of, "psi", "baseline", other, baseline=known).result == "fail"
        assert look(of, "psi", "baseline", good, baseline=known).reason == f"nobody has counted {of} of the answers"


def test_what_cannot_be_compared_is_inconclusive() -> None:
    arm = each("prompt_tokens", [5] * 100)
    assert look("prompt_tokens", "psi", "baseline", arm).reason == "no baseline has prompt_tokens"
    small = baseline(prompt_tokens={"edges": [0, 10], "counts": [7]})
    assert (
        look("prompt_tokens", "psi", "baseline", arm, baseline=small).reason
        == "7 of at least 50 counts of the baseline"
    )
    known = baseline(prompt_tokens={"edges": [0, 10, 20], "counts": [70, 70]})
    other = Arm(arm.observations, distributions=baseline(prompt_tokens={"edges": [0, 11, 20], "counts": [70, 70]}))
    assert (
        look("prompt_tokens", "psi", "baseline", other, baseline=known).reason == "it was counted between other edges"
    )


@pytest.mark.parametrize("kind", DISTANCES)
def test_the_true_distance_is_within_the_bounds_at_every_look(kind: str) -> None:
    random = np.random.default_rng(5)
    p, q = np.array([0.4, 0.3, 0.2, 0.1]), np.array([0.1, 0.2, 0.3, 0.4])
    shares = [(p.cumsum()[:-1], q.cumsum()[:-1]) if kind == "ks" else (p, q)][0]
    truth, missed = distance(kind, *shares), 0
    for _ in range(100):
        counts = random.multinomial(1, p, 600).cumsum(axis=0)
        for n in (50, 100, 200, 400, 600):
            seen = counts[n - 1].cumsum()[:-1] if kind == "ks" else counts[n - 1]
            bounds = bounded(kind, rate(seen, n, 0.05 / 4), (shares[1], shares[1]))
            if not bounds.low <= truth <= bounds.high:
                missed += 1
                break
    assert missed <= 5


def test_the_bounds_of_all_bins_hold_together() -> None:
    known = baseline(prompt_tokens={"edges": list(range(0, 101, 10)), "counts": [500] * 10})
    found = dict(look("prompt_tokens", "psi", "baseline", each("prompt_tokens", range(100)), baseline=known).figures)
    seen, stored = np.array([0, *[10] * 10, 0]), np.array([0, *[0.1] * 10, 0])  # nothing below the edges, nor above
    expected = bounded("psi", rate(seen, 100, 0.05 / 12), (stored, stored))
    assert (found["low"], found["high"]) == expected


def test_distances_are_those_of_the_literature() -> None:
    p, q = np.array([0.5, 0.5]), np.array([0.9, 0.1])
    assert distance("psi", p, q) == pytest.approx((0.4 * np.log(9 / 5)) + 0.4 * np.log(5))
    assert distance("js", np.array([1.0, 0.0]), np.array([0.0, 1.0])) == pytest.approx(1)
    assert distance("ks", p.cumsum()[:-1], q.cumsum()[:-1]) == pytest.approx(0.4)
    assert distance("psi", q, q) == distance("js", q, q) == 0

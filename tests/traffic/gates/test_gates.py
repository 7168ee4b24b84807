"""Gates: what passes, fails and stays open, of every provider; and that no evidence is ever an exception."""

from __future__ import annotations

import math
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docs.pages import ROOT
from graftwork.protocol.analysis import Amount, Distance, Drifting, MetricPart, ProviderPart, Rate, Statistic
from graftwork.protocol.evaluations import TaskEvaluation
from graftwork.traffic.gates.evidence import Arm, Evidence
from graftwork.traffic.gates.gates import GATES, judge, judge_metric
from graftwork.traffic.gates.live import AMOUNTS, RATES
from graftwork.traffic.verdict import Verdict
from support.analysis import amount_metric, answer, answers, each, evidence, metric, rate_metric, spec

NEVER = Arm()


def look(one: MetricPart, shown: Evidence) -> Verdict:
    return judge_metric(one, shown, 0.05)


# What a condition comes to


@pytest.mark.parametrize(
    ("good", "bad", "result"), [(1000, 0, "pass"), (990, 10, "pass"), (500, 500, "fail"), (94, 6, "inconclusive")]
)
def test_a_success_condition_passes_when_proven_and_fails_when_disproved(good: int, bad: int, result: str) -> None:
    found = look(rate_metric(successCondition="result >= 0.95"), evidence(answers(good, bad)))
    assert found.result == result
    figures = dict(found.figures)
    assert (
        figures["n"] == good + bad
        and figures["bound"] == 0.95
        and figures["low"] <= figures["value"] <= figures["high"]
    )
    assert f"n={good + bad}" in found.reason and "alpha 0.05" in found.reason


def test_a_failure_condition_alone_is_a_guard() -> None:
    guard = rate_metric(failureCondition="result < 0.95")
    assert look(guard, evidence(answers(94, 6))).result == "pass"  # not proven to be bad
    assert look(guard, evidence(answers(60, 40))).result == "fail"
    assert look(guard, evidence(answers(49, 0))).result == "inconclusive"  # too few to say even that


def test_between_two_conditions_it_stays_open() -> None:
    both = rate_metric(successCondition="result >= 0.99", failureCondition="result < 0.8")
    assert look(both, evidence(answers(900, 100))).result == "inconclusive"
    assert look(both, evidence(answers(500, 500))).result == "fail"
    assert look(both, evidence(answers(3000, 1))).result == "pass"


def test_a_version_is_compared_with_stable_by_difference_and_by_ratio() -> None:
    worse, same = evidence(answers(400, 100), answers(490, 10)), evidence(answers(2000, 40), answers(2000, 40))
    difference = rate_metric(successCondition="result - stable >= -0.03")
    assert (look(difference, worse).result, look(difference, same).result) == ("fail", "pass")
    assert "result 0.8, stable 0.98" in look(difference, worse).reason
    ratio = rate_metric(failureCondition="result / stable < 0.9")
    assert (look(ratio, worse).result, look(ratio, same).result) == ("fail", "pass")


# What is measured


@pytest.mark.parametrize(
    ("measure", "bad"),
    [
        ("empty_rate", {"empty": True}),
        ("truncated_rate", {"finish_reason": "length"}),
        ("repetitive_rate", {"repetitive": True}),
        ("refusal_rate", {"refusal": True}),
    ],
)
def test_bad_content_trips_a_gate_though_its_status_is_good(measure: str, bad: dict[str, Any]) -> None:
    gate = rate_metric(measure, failureCondition="result - stable > 0.05")
    shown = evidence(answers(60, 40, **bad), answers(100))
    assert look(gate, shown).result == "fail"
    assert look(rate_metric(successCondition="result >= 0.9"), shown).result == "pass"  # each answered with 200


def test_only_answers_that_had_a_form_count_for_it() -> None:
    arm = Arm([*(answer(format_valid=True) for _ in range(300)), *(answer(format_valid=None) for _ in range(900))])
    found = look(rate_metric("format_valid_rate", successCondition="result > 0.95"), evidence(arm))
    assert found.result == "pass" and dict(found.figures)["n"] == 300


def test_what_clients_broke_off_is_neither_success_nor_failure() -> None:
    shown = evidence(answers(200, 800, outcome="aborted"))
    found = look(rate_metric(successCondition="result >= 0.95"), shown)
    assert found.result == "pass" and dict(found.figures)["n"] == 200


@pytest.mark.parametrize("statistic", ["mean", "p50", "p90", "p95", "p99"])
@pytest.mark.parametrize("measure", ["latency_s", "ttft_s", "output_tokens"])
def test_a_candidate_that_is_twice_as_slow_fails_and_one_that_is_alike_passes(measure: str, statistic: str) -> None:
    random = np.random.default_rng(1)
    draw = [random.lognormal(4, 0.2, 2000).astype(int) for _ in range(2)]
    gate = amount_metric(measure, statistic, successCondition="result / stable <= 1.5")
    slow, alike = each(measure, (2 * draw[0]).tolist()), each(measure, draw[0].tolist())
    stable = each(measure, draw[1].tolist())
    assert look(gate, evidence(slow, stable)).result == "fail"
    assert look(gate, evidence(alike, stable)).result == "pass"


def test_throughput_is_of_each_answer() -> None:
    arm = Arm([answer(output_tokens=50, latency_s=0.5), answer(output_tokens=90, latency_s=1.0)] * 300)
    found = look(amount_metric("output_tokens_per_s", "p50", successCondition="result >= 80"), evidence(arm))
    assert found.result == "pass" and dict(found.figures)["value"] in (90, 100)


def test_log_probabilities_are_compared_by_their_difference() -> None:
    random = np.random.default_rng(2)
    gate = amount_metric("mean_logprob", "mean", successCondition="result - stable >= -0.2")
    stable = each("mean_logprob", random.normal(-0.8, 0.3, 800).tolist())
    assert look(gate, evidence(each("mean_logprob", random.normal(-0.8, 0.3, 800).tolist()), stable)).result == "pass"
    assert look(gate, evidence(each("mean_logprob", random.normal(-2, 0.3, 800).tolist()), stable)).result == "fail"


@pytest.mark.parametrize("subject", ["result", "result - stable", "result / stable"])
def test_feedback_is_between_its_bounds(subject: str) -> None:
    bound = {"result": "2.5", "result - stable": "-1", "result / stable": "0.8"}[subject]
    gate = metric({"feedback": {"name": "stars", "low": 1, "high": 5}}, successCondition=f"{subject} >= {bound}")
    good, bad = each("feedback", [{"stars": 4.0}, {"stars": 5.0}] * 200), each("feedback", [{"stars": 1.0}] * 400)
    assert look(gate, evidence(good, good)).result == "pass"
    assert look(gate, evidence(bad, good)).result == "fail"
    assert "not from 1 to 5" in look(gate, evidence(each("feedback", [{"stars": 9.0}] * 60), good)).reason


def scored(value: float, stderr: float | None = None, **fields: Any) -> Arm:
    told = {"family": "task", "name": "sst2", "split": "test", "dataset": {"id": "sst2"}, **fields}
    measured = {"name": "accuracy", "value": value, "n": 500, **({} if stderr is None else {"stderr": stderr})}
    return Arm(evaluations=[TaskEvaluation.model_validate({**told, "metrics": [measured]})])


SST2 = {"evaluation": {"name": "sst2", "split": "test", "metric": "accuracy"}}


def test_evaluations_are_judged_by_their_standard_error_or_as_they_are() -> None:
    gate = metric(SST2, successCondition="result >= 0.8")
    assert [look(gate, evidence(scored(value))).result for value in (0.8, 0.79)] == ["pass", "fail"]
    assert "without a standard error" in look(gate, evidence(scored(0.8))).reason
    assert look(gate, evidence(scored(0.81, 0.02))).result == "inconclusive"
    better = metric(SST2, successCondition="result - stable > 0")
    assert look(better, evidence(scored(0.9, 0.01), scored(0.8, 0.01))).result == "pass"
    assert look(better, evidence(scored(0.8, 0.01), scored(0.9, 0.01))).result == "fail"
    ratio = metric(SST2, successCondition="result / stable >= 0.95")
    assert look(ratio, evidence(scored(0.9, 0.001), scored(0.9, 0.001))).result == "pass"


def test_evaluations_on_other_data_are_not_compared() -> None:
    gate = metric(SST2, successCondition="result - stable >= 0")
    other = scored(0.8, dataset={"id": "sst2", "revision": "2"})
    assert "not measured on the same" in look(gate, evidence(scored(0.9), other)).reason
    assert "no offline evaluation sst2 on test of stable" in look(gate, evidence(scored(0.9))).reason
    few = metric(SST2, successCondition="result >= 0.8", minSamples=501)
    assert look(few, evidence(scored(0.9))).reason == "500 of at least 501 examples in the evaluation of the candidate"


# What is lacking


def test_five_requests_or_none_are_inconclusive() -> None:
    gate = rate_metric(successCondition="result >= 0.5")
    assert look(gate, evidence(NEVER)).reason == "0 of at least 50 answers of the candidate"
    assert look(gate, evidence(answers(5))).result == "inconclusive"
    assert look(rate_metric(successCondition="result >= 0.5", minSamples=5), evidence(answers(5))).result != "fail"
    relative = rate_metric(successCondition="result / stable >= 0.5")
    assert look(relative, evidence(answers(100), answers(5))).reason == "5 of at least 50 answers of stable"


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
def test_a_nan_is_inconclusive_with_the_reason(wrong: float) -> None:
    arm = each("mean_logprob", [-0.5] * 200 + [wrong])
    for statistic in ("mean", "p50"):
        found = look(amount_metric("mean_logprob", statistic, failureCondition="result < -2"), evidence(arm))
        assert (found.result, found.reason) == ("inconclusive", "1 of 201 values of the candidate are NaN or infinite")


def test_a_ratio_to_nothing_says_nothing() -> None:
    gate = amount_metric("mean_logprob", "mean", failureCondition="result / stable > 2")
    arm = each("mean_logprob", [-1.0, -2.0] * 100)
    assert "not above 0" in look(gate, evidence(arm, arm)).reason
    refusals = rate_metric("refusal_rate", failureCondition="result / stable > 2")
    assert (
        look(refusals, evidence(answers(800, 200, refusal=True), answers(1000))).result == "fail"
    )  # from none to many
    assert "result / stable is undefined" in look(refusals, evidence(answers(99), answers(99))).reason


NUMBERS = st.one_of(st.floats(), st.sampled_from([math.nan, math.inf, 0.0, -0.0, 1e308, -1e308, 5e-324]))
GATE_OF = {
    "rate": {"rate": {"measure": "success_rate"}},
    "amount": {"amount": {"measure": "latency_s", "statistic": "mean"}},
    "percentile": {"amount": {"measure": "output_tokens_per_s", "statistic": "p95"}},
    "feedback": {"feedback": {"name": "stars"}},
    "drift": {"drift": {"of": "mean_logprob", "against": "stable"}},
}


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(sorted(GATE_OF)),
    st.sampled_from(["result", "result - stable", "result / stable"]),
    st.lists(NUMBERS, max_size=4),
    st.lists(NUMBERS, max_size=4),
)
def test_no_evidence_is_ever_an_exception(kind: str, subject: str, mine: list[float], others: list[float]) -> None:
    subject = "result" if kind == "drift" else subject
    gate = metric(
        GATE_OF[kind], successCondition=f"{subject} >= 0.5", failureCondition=f"{subject} < 0.1", minSamples=1
    )
    arms = [
        Arm([answer(latency_s=one, output_tokens=7, mean_logprob=one, feedback={"stars": one}) for one in values * 30])
        for values in (mine, others)
    ]
    found = look(gate, evidence(*arms))
    assert found.reason and all(math.isfinite(value) for _, value in found.figures)


# All metrics


def test_one_metric_that_fails_is_enough_and_all_must_pass() -> None:
    good, open_, bad = (rate_metric(successCondition=f"result >= {bound}") for bound in (0.5, 0.8, 0.99))
    shown = evidence(answers(80, 20))
    passed = judge(spec(good), shown).whole
    assert (passed.result, passed.reason) == ("pass", "All 1 metrics pass.")
    waiting = judge(spec(good, open_), shown)
    assert waiting.whole.result == "inconclusive" and waiting.whole.reason.startswith(
        "1 of 2 metrics inconclusive. m1: "
    )
    failed = judge(spec(good, open_, bad), shown)
    assert failed.whole.result == "fail" and "m2: result < 0.99 is proven" in failed.whole.reason
    assert [one.result for one in failed.metrics] == ["pass", "inconclusive", "fail"]


def test_the_more_metrics_can_fail_the_surer_each_must_be() -> None:
    gate, shown = rate_metric(successCondition="result >= 0.9"), evidence(answers(61, 19))
    assert judge(spec(gate), shown).whole.result == "fail"
    assert judge(spec(*[gate] * 32), shown).whole.result == "inconclusive"


def test_an_analysis_of_good_versions_rarely_ever_fails_though_it_is_looked_at_all_the_time() -> None:
    """Five metrics whose conditions are met with nothing to spare, 20 runs of 4 looks each: alpha is of the whole."""
    random, failed = np.random.default_rng(7), 0
    measures = ["success_rate", "empty_rate", "refusal_rate", "repetitive_rate", "truncated_rate"]
    conditions = ["result >= 0.9", *["result <= 0.1"] * 4]
    gates = [rate_metric(one, successCondition=bound) for one, bound in zip(measures, conditions, strict=True)]
    for _ in range(20):
        draws = random.random((400, 5)) < 0.1
        shown = [
            answer(
                outcome="error" if draw[0] else "ok",
                empty=bool(draw[1]),
                refusal=bool(draw[2]),
                repetitive=bool(draw[3]),
                finish_reason="length" if draw[4] else "stop",
            )
            for draw in draws
        ]
        failed += any(
            judge(spec(*gates), evidence(Arm(shown[:n]))).whole.result == "fail" for n in (100, 200, 300, 400)
        )
    assert failed <= 0.05 * 20


def test_everything_that_can_be_measured_has_its_gate_and_is_documented() -> None:
    assert set(GATES) == set(ProviderPart.model_fields)
    assert (set(RATES), set(AMOUNTS)) == (set(get_args(Rate)), set(get_args(Amount)))
    page = (ROOT / "docs/reference/analysis.md").read_text(encoding="utf-8")
    words = [*GATES, *RATES, *AMOUNTS, *get_args(Statistic), *get_args(Drifting), *get_args(Distance)]
    assert [word for word in words if word not in page] == []

"""AnalysisTemplates: what is read, and how what cannot be read is told."""

from __future__ import annotations

import json
from typing import Any

import pytest

from graftwork.errors import InvalidRequest
from graftwork.protocol.analysis_template import AnalysisTemplate
from graftwork.protocol.condition import Condition, parse_condition
from support.analysis import template

RATE = {"rate": {"measure": "success_rate"}}
GOOD = {"name": "errors", "provider": RATE, "successCondition": "result >= 0.95"}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("result >= 0.95", Condition("result", ">=", 0.95)),
        ("result<1e-3", Condition("result", "<", 0.001)),
        (" result - stable >= -0.02 ", Condition("result - stable", ">=", -0.02)),
        ("result-stable>=-.5e0".replace("-.5", "-0.5"), Condition("result - stable", ">=", -0.5)),
        ("result / stable <= 1.2", Condition("result / stable", "<=", 1.2)),
    ],
)
def test_a_condition_is_one_comparison_with_a_number(text: str, found: Condition) -> None:
    assert parse_condition(text) == found
    assert parse_condition(str(found)) == found
    assert parse_condition(str(found.contrary)).contrary == found


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("result", "at character 7: expected one of - / < <= > >=, found the end"),
        ("result[0] >= 0.95", "at character 7: expected one of - / < <= > >=, found '[0] >= 0.95'"),
        ("0.95 <= result", "at character 1: expected result"),
        ("result >= stable", "at character 11: expected a number, found 'stable'"),
        ("result / baseline < 2", "at character 10: expected stable"),
        ("result == 1", "at character 8: expected one of"),
        ("result >= 0.9 and result < 1", "at character 15: expected the end, found 'and result < 1'"),
        ("result >= 1e999", "expected a number"),
        ("__import__('os')", "at character 1: expected result"),
    ],
)
def test_a_mistake_in_a_condition_is_told_with_its_place(text: str, message: str) -> None:
    with pytest.raises(ValueError, match="cannot be read") as raised:
        parse_condition(text)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("low", "high", "expected"), [(0.95, 1, True), (0.94, 1, False), (0.95, 0.95, True), (0.0, 0.9, False)]
)
def test_a_condition_holds_where_all_of_the_bounds_meet_it(low: float, high: float, expected: bool) -> None:
    assert parse_condition("result >= 0.95").holds_between(low, high) == expected
    assert parse_condition("result > 0.95").holds_between(0.95, 1) is False


def test_a_template_is_read_with_its_defaults() -> None:
    found = AnalysisTemplate.read(json.dumps(template({**GOOD, "interval": "30s", "count": 3})).encode())
    (metric,) = found.spec.analysis({}).metrics
    assert (found.spec.alpha, metric.interval, metric.count, metric.failure_limit) == (0.05, 30, 3, 0)
    assert metric.inconclusive_limit is None and metric.provider.kind == "rate"


DRIFT: dict[str, Any] = {"name": "d", "successCondition": "result <= 0.2"}


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        ({**GOOD, "consecutiveErrorLimit": 4}, "consecutiveErrorLimit is not a field"),
        ({**GOOD, "successCondition": "result > x"}, "spec.metrics.0.successCondition cannot be read at character 10"),
        ({"name": "errors", "provider": RATE}, "must have a successCondition, a failureCondition, or both"),
        ({**GOOD, "failureCondition": "result / stable < 0.9"}, "both conditions must compare the same"),
        ({**GOOD, "count": 2}, "has a count but no interval"),
        ({**GOOD, "provider": {}}, "exactly one of rate, amount"),
        ({**GOOD, "provider": {**RATE, "feedback": {"name": "stars"}}}, "exactly one of"),
        ({**GOOD, "provider": {"rate": {"measure": "error_rate"}}}, "provider.rate.measure must be 'success_rate'"),
        ({**GOOD, "provider": {"amount": {"measure": "latency_s"}}}, "provider.amount.statistic is required"),
        ({**GOOD, "provider": {"feedback": {"name": "x", "low": 1.0, "high": 1.0}}}, "not below its high"),
        ({**DRIFT, "provider": {"drift": {"of": "mean_logprob"}}}, "no baseline has"),
        ({**DRIFT, "provider": {"drift": {"of": "tokens", "distance": "ks"}}}, "have no order"),
        ({**DRIFT, "provider": {"drift": {"of": "tokens"}}, "successCondition": "result / stable < 2"}, "result alone"),
        ({**GOOD, "interval": "soon"}, "such as 90s"),
    ],
)
def test_what_is_wrong_in_a_metric_is_told(metric: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        AnalysisTemplate.read(json.dumps(template(metric)).encode())
    assert message in raised.value.message


def test_two_metrics_of_one_name_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="two metrics of the name errors"):
        AnalysisTemplate.read(json.dumps(template(GOOD, GOOD)).encode())

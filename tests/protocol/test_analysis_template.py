"""AnalysisTemplates with arguments: where they may stand, what is refused when one is written, and how it is kept."""

from __future__ import annotations

import json
from typing import Any

import pytest

from graftwork.errors import InvalidRequest
from graftwork.protocol.analysis_template import AnalysisTemplate, TemplateSpec
from support.analysis import template

RATE = {"rate": {"measure": "success_rate"}}
METRIC = {"name": "success", "provider": RATE, "successCondition": "result >= {{args.floor}}"}
FLOOR = {"name": "floor"}


def read(*metrics: dict[str, Any], **fields: Any) -> TemplateSpec:
    return AnalysisTemplate.read(json.dumps(template(*metrics, **fields)).encode()).spec


def test_an_argument_stands_for_all_of_a_text_or_a_part_of_it_blanks_or_not() -> None:
    metric = {
        "name": "{{args.what}}-accuracy",
        "provider": {"evaluation": {"name": "{{ args.what }}", "metric": "accuracy"}},
        "successCondition": "result {{args.compare}} {{args.floor}}",
        "minSamples": "{{ args.n }}",
        "interval": "{{args.minutes}}m",
        "initialDelay": "{{args.wait}}",
    }
    names = ("what", "compare", "floor", "n", "minutes", "wait", "alpha")
    found = read(metric, args=[{"name": name} for name in names], alpha="{{args.alpha}}", settle="{{args.wait}}")
    values = dict(zip(names, ("sst2", ">", "0.9", "70", "2", "30", "1e-2"), strict=True))
    spec = found.analysis(values)
    (one,) = spec.metrics
    assert one.provider.evaluation is not None
    assert (one.name, one.provider.evaluation.name, str(one.success)) == ("sst2-accuracy", "sst2", "result > 0.9")
    assert (one.min_samples, one.interval, one.initial_delay, spec.alpha, spec.settle) == (70, 120, 30, 0.01, 30)


def test_a_text_that_looks_like_a_number_stays_one_where_a_text_is_due() -> None:
    metric = {"name": "a", "provider": {"feedback": {"name": "{{args.name}}"}}, "failureCondition": "result < 1"}
    (one,) = read(metric, args=[{"name": "name"}]).analysis({"name": "2024"}).metrics
    assert one.provider.feedback is not None and one.provider.feedback.name == "2024"


@pytest.mark.parametrize(("value", "text"), [("0.9", "0.9"), (0.9, "0.9"), (50, "50"), (50.0, "50"), (-0.03, "-0.03")])
def test_a_number_is_the_text_of_it(value: Any, text: str) -> None:
    assert read(METRIC, args=[{**FLOOR, "value": value}]).defaults == {"floor": text}


@pytest.mark.parametrize(
    ("metric", "args", "message"),
    [
        (METRIC, [], "spec.metrics.0.successCondition names the argument floor, which spec.args does not declare"),
        (METRIC, [FLOOR, {"name": "n"}], "spec.args.1 is declared, and nothing names {{args.n}}"),
        (METRIC, [FLOOR, FLOOR], "spec.args.1.name is floor a second time"),
        (METRIC, [{"name": "the floor"}], "spec.args.0.name must match"),
        (METRIC, [{**FLOOR, "value": True}], "spec.args.0.value must be a text or a number"),
        (METRIC, [{**FLOOR, "value": [1]}], "spec.args.0.value must be a text or a number"),
        (METRIC, [{**FLOOR, "value": "{{args.n}}"}], "spec.args.0.value is a value, and holds no {{"),
        (METRIC, [{**FLOOR, "valueFrom": {"secretKeyRef": {}}}], "spec.args.0 has valueFrom"),
        (METRIC, [{**FLOOR, "value": "high"}], "cannot be read at character 11: expected a number, found 'high', with"),
        (METRIC, [{**FLOOR, "value": "high"}], "with floor = 'high'"),
        (
            {**METRIC, "count": "{{ inputs.x }}"},
            [FLOOR],
            "spec.metrics.0.count holds {{ inputs.x }}; only {{args.NAME}}",
        ),
        ({**METRIC, "count": "{{arg.floor}}"}, [FLOOR], "spec.metrics.0.count holds {{arg.floor}}"),
        ({**METRIC, "count": "{{args.floor}"}, [FLOOR], "double braces that are not closed"),
        (
            {**METRIC, "provider": "{{args.floor}}"},
            [FLOOR],
            "provider holds {{args.floor}}, which stands for a text or",
        ),
        (
            {**METRIC, "lim": "{{args.floor}}"},
            [FLOOR],
            "spec.metrics.0.lim is not a field of this request; there are name",
        ),
        (
            {**METRIC, "count": "{{args.floor}}" * 80},
            [FLOOR],
            "count holds double braces, and more than 1024 characters",
        ),
        ({**METRIC, "count": ["{{args.floor}}"] * 1025}, [FLOOR], "metrics has more than 1024 texts with arguments"),
        ({**METRIC, "minSamples": 0}, [FLOOR], "spec.metrics.0.minSamples must be at least 1"),
        ({**METRIC, "minSamples": "many"}, [FLOOR], "spec.metrics.0.minSamples must be a valid integer"),
    ],
)
def test_what_is_wrong_whatever_the_values_are_is_told_when_it_is_written(
    metric: dict[str, Any], args: list[Any], message: str
) -> None:
    with pytest.raises(InvalidRequest) as raised:
        read(metric, args=args)
    assert message in raised.value.message


def test_it_is_kept_as_it_was_written_and_what_holds_no_argument_as_an_analysis_is() -> None:
    plain = {"name": "slow", "provider": RATE, "failureCondition": "result < 0.5", "interval": "30s"}
    found = read({**METRIC, "interval": "30s"}, plain, args=[{**FLOOR, "value": 0.9}], settle="1m")
    kept = found.to_json()
    assert kept["metrics"] == [{**METRIC, "interval": "30s"}, {**plain, "interval": 30.0}]
    assert (kept["settle"], kept["args"]) == (60.0, [{"name": "floor", "value": "0.9"}])
    assert TemplateSpec.model_validate(kept).to_json() == kept

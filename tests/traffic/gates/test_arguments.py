"""Arguments: a template with values is what somebody would have written who has no arguments."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from graftwork.errors import InvalidRequest
from graftwork.protocol.analysis import AnalysisSpec
from graftwork.protocol.analysis_template import TemplateSpec
from graftwork.protocol.arguments import Place
from graftwork.traffic.gates.arguments import Arguments, fill

NAMES = st.sampled_from(["success", "2024", "Not a name", "sst2"])
PROVIDERS = st.one_of(
    st.fixed_dictionaries({"rate": st.fixed_dictionaries({"measure": st.sampled_from(["success_rate", "luck"])})}),
    st.fixed_dictionaries(
        {"feedback": st.fixed_dictionaries({"name": NAMES}, optional={"low": st.sampled_from([0, 1.5, "x"])})}
    ),
    st.fixed_dictionaries({"evaluation": st.fixed_dictionaries({"name": NAMES, "metric": NAMES})}),
    st.fixed_dictionaries(
        {
            "drift": st.fixed_dictionaries(
                {"of": st.sampled_from(["tokens", "prompt_tokens"]), "against": st.just("stable")}
            )
        }
    ),
)
CONDITIONS = st.sampled_from(["result >= 0.95", "result / stable < 1.5", "result", "result < -2e-3"])
LENGTHS = st.sampled_from(["90s", "1h30m", "soon", 5, 0.5, -1])
METRICS = st.fixed_dictionaries(
    {"name": NAMES, "provider": PROVIDERS, "successCondition": CONDITIONS},
    optional={
        "failureCondition": CONDITIONS,
        "initialDelay": LENGTHS,
        "interval": LENGTHS,
        "count": st.integers(-1, 3),
        "minSamples": st.sampled_from([0, 70, 1.5]),
    },
)
SPECS = st.fixed_dictionaries(
    {"metrics": st.lists(METRICS, min_size=1, max_size=2)},
    optional={"alpha": st.sampled_from([0.05, 2, 1e-3]), "settle": LENGTHS},
)


def literals(value: Any, place: Place = ()) -> Iterator[tuple[Place, str | float]]:
    if isinstance(value, dict | list):
        for step, one in value.items() if isinstance(value, dict) else enumerate(value):
            yield from literals(one, (*place, step))
    else:
        yield place, value


def put(spec: Any, place: Place, value: str) -> None:
    for step in place[:-1]:
        spec = spec[step]
    spec[place[-1]] = value


@settings(max_examples=300)
@given(spec=SPECS, data=st.data())
def test_a_template_with_values_is_read_as_the_same_with_literals(spec: dict[str, Any], data: st.DataObject) -> None:
    opened, args, at_use = json.loads(json.dumps(spec)), [], []
    for number, (place, value) in enumerate(literals(spec)):
        if not data.draw(st.booleans()):
            continue
        text = value if isinstance(value, str) else json.dumps(value)
        start, end = 0, len(text)
        if isinstance(value, str):
            start = data.draw(st.integers(0, len(text) - 1))
            end = data.draw(st.integers(start + 1, len(text)))
        put(opened, place, f"{text[:start]}{{{{args.a{number}}}}}{text[end:]}")
        default = {"value": text[start:end]} if data.draw(st.booleans()) else {}
        args.append({"name": f"a{number}", **default})
        if not default or data.draw(st.booleans()):
            at_use.append((f"a{number}", text[start:end]))
    try:
        by_hand: AnalysisSpec | None = AnalysisSpec.model_validate(spec)
    except ValidationError:
        by_hand = None
    try:
        found = fill("any", TemplateSpec.model_validate({**opened, "args": args}), tuple(at_use)).spec
    except (ValidationError, InvalidRequest):
        assert by_hand is None
    else:
        assert found == by_hand


METRIC = {
    "name": "success",
    "provider": {"rate": {"measure": "success_rate"}},
    "successCondition": "result >= {{args.floor}}",
    "minSamples": "{{args.n}}",
}


def spec() -> TemplateSpec:
    return TemplateSpec.model_validate({"args": [{"name": "floor"}, {"name": "n", "value": "50"}], "metrics": [METRIC]})


@pytest.mark.parametrize(
    ("args", "field", "message"),
    [
        ((), "args", "The template careful needs a value for floor: give {name: floor, value: …}."),
        (
            (("floor", "1"), ("m", "1")),
            "args.1.name",
            "The template careful has no argument m; its arguments are floor, n.",
        ),
        ((("floor", "1"), ("floor", "1")), "args.1.name", "The argument floor of careful is given twice."),
        (
            (("n", "60"), ("floor", "high")),
            "args.1.value",
            "The template careful with floor = 'high': metric success: successCondition cannot be read at character "
            "11: expected a number, found 'high'.",
        ),
        (
            (("floor", "1"), ("n", "0")),
            "args.1.value",
            "The template careful with n = '0': metric success: minSamples must be at least 1 (got 0).",
        ),
    ],
)
def test_values_that_do_not_fit_are_refused_by_their_field(args: Arguments, field: str, message: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        fill("careful", spec(), args)
    assert (raised.value.field, raised.value.message) == (field, message)


def test_what_arguments_stand_for_is_told_those_left_to_the_template_included() -> None:
    filled = fill("careful", spec(), (("floor", "0.9"),))
    assert filled.args == (("floor", "0.9"), ("n", "50"))
    assert filled.spec.metrics[0].min_samples == 50

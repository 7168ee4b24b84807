"""Plans: what a document means, and what it may not say."""

from __future__ import annotations

import json
from typing import Any

import pytest

from graftwork.errors import InvalidRequest
from graftwork.protocol.rollouts import RolloutBody, RolloutSpec
from graftwork.traffic.rollouts.plan import Pause, Plan, SetMirror, SetWeight
from support.rollouts import canary, document, hold, spec, weight

TWO = (("b", "support:2"), ("c", "support:3"))


def test_a_canarys_steps_are_read_in_order() -> None:
    told = spec("support", canary(weight(5), hold("1h30m"), hold(), {"setMirror": 10}, weight(0.5)))
    plan = Plan.of(told)
    assert plan.steps == (
        SetWeight({"candidate": 0.05}),
        Pause(5400.0),
        Pause(None),
        SetMirror("candidate", 0.1),
        SetWeight({"candidate": 0.005}),
    )
    assert plan == Plan.of(RolloutSpec.model_validate(told.model_dump(mode="json", by_alias=True, exclude_unset=True)))
    assert (plan.winner, plan.strategy, plan.analyses) == ("candidate", "canary", ())


def test_relative_weights_are_shares_and_left_out_they_are_equal() -> None:
    given = Plan.of(spec("support", {"split": {"weights": {"stable": 60, "b": 60, "c": 0}}}, *TWO))
    assert given.steps[0] == SetWeight({"b": 0.5, "c": 0.0})
    equal = Plan.of(spec("support", {"split": {}}, *TWO))
    assert equal.steps == (SetWeight({"b": 1 / 3, "c": 1 / 3}), Pause(None))


@pytest.mark.parametrize(
    ("strategy", "candidates", "message"),
    [
        ({}, (), "needs one of"),
        ({"canary": {"steps": [weight(1)]}, "split": {}}, (), "needs one of"),
        (canary({}), (), "A step is one of"),
        (canary({**weight(1), **hold()}), (), "A step is one of"),
        (canary(weight(1)), TWO, "only the strategy split"),
        ({"split": {"weights": {"b": 1, "c": 1}}}, TWO, "for all arms or for none"),
        ({"split": {"weights": {"stable": 0, "b": 0, "c": 0}}}, TWO, "above 0"),
        ({"split": {}}, (("b", "support:2"), ("b", "support:3")), "name of its own"),
        ({"split": {}}, (("stable", "support:2"),), "name of its own"),
        ({"split": {}}, (("B", "support:2"),), "arm name"),
    ],
)
def test_what_means_nothing_is_refused(strategy: dict[str, Any], candidates: Any, message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        Plan.of(spec("support", strategy, *candidates))


@pytest.mark.parametrize(
    ("strategy", "field"),
    [
        (canary(weight(101)), "setWeight"),
        (canary(weight(-1)), "setWeight"),
        (canary(hold("soon")), "duration"),
        (canary(hold("366d")), "duration"),
        (canary({"setHeaderRoute": {}}), "setHeaderRoute"),
        (canary(), "steps"),
        (canary(*[weight(1)] * 101), "steps"),
        ({"split": {"weights": {"stable": -1, "b": 101}}}, "weights"),
        ({"split": {"weights": {"stable": 1e9, "b": 1}}}, "weights"),
        ({"bluegreen": {}}, "bluegreen"),
        (canary(weight(1), analysis={"name": "errors", "args": {str(number): 1 for number in range(33)}}), "args"),
    ],
)
def test_fields_that_are_unknown_or_out_of_range_are_refused_by_name(strategy: dict[str, Any], field: str) -> None:

    with pytest.raises(InvalidRequest) as refused:
        RolloutBody.read(json.dumps(document("support", strategy)).encode())
    assert refused.value.field is not None and field in refused.value.field


def test_a_document_that_is_anothers_is_refused() -> None:

    told = {**document("support", canary(weight(1))), "metadata": {"name": "billing"}}
    with pytest.raises(InvalidRequest, match="give one of them"):
        RolloutBody.read(json.dumps(told).encode())

"""The door that tries templates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from graftwork.errors import InvalidRequest
from support.analysis import template

if TYPE_CHECKING:
    from support.served import Served

SUCCESS = {"name": "success", "provider": {"rate": {"measure": "success_rate"}}, "successCondition": "result >= 0.9"}
SST2 = {
    "name": "sst2",
    "provider": {"evaluation": {"name": "sst2", "metric": "accuracy"}},
    "successCondition": "result - stable >= 0",
}
OK, ERROR = {"outcome": "ok", "latency_s": 0.5}, {"outcome": "error", "latency_s": 0.1}


def sst2(accuracy: float) -> dict[str, Any]:
    told = {"family": "task", "name": "sst2", "dataset": {"id": "sst2"}}
    return {**told, "metrics": [{"name": "accuracy", "value": accuracy}]}


def test_a_template_judges_evidence_and_nothing_is_kept(served: Served) -> None:
    arm = {"observations": [OK] * 200, "evaluations": [sst2(0.5), sst2(0.8)]}
    stable = {"evaluations": [sst2(0.7)]}
    found = served.client.analyses.check(template(SUCCESS, SST2), {"candidate": arm, "stable": stable})
    assert (found["name"], found["result"]) == ("careful", "pass")
    assert [one["result"] for one in found["metrics"]] == ["pass", "pass"]
    assert found["metrics"][0]["figures"]["n"] == 200
    bad = served.client.analyses.check(template(SUCCESS), {"candidate": {"observations": [OK] * 60 + [ERROR] * 60}})
    assert bad["result"] == "fail" and "result < 0.9 is proven" in bad["reason"]
    nothing = served.client.analyses.check(template(SUCCESS), {"candidate": {}})
    assert nothing["result"] == "inconclusive"
    assert served.client.analyses.check(template(SUCCESS))["result"] is None


@pytest.mark.parametrize(
    ("evidence", "field"),
    [
        ({"candidate": {"observations": [{**OK, "latency": 1}]}}, "evidence.candidate.observations.0.latency"),
        (
            {"candidate": {"observations": [{"outcome": "good", "latency_s": 1.0}]}},
            "evidence.candidate.observations.0.outcome",
        ),
        (
            {"candidate": {"evaluations": [{**sst2(1.0), "metrics": [{"name": "a", "value": 1.0}] * 2}]}},
            "metrics.1.name",
        ),
        ({"candidate": {"observations": [{**OK, "latency_s": -1.0}]}}, "evidence.candidate.observations.0.latency_s"),
    ],
)
def test_evidence_that_cannot_be_read_is_named(served: Served, evidence: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidRequest) as raised:
        served.client.analyses.check(template(SUCCESS), evidence)
    assert raised.value.field == field


FLOOR = {**SUCCESS, "successCondition": "result >= {{args.floor}}", "minSamples": "{{ args.n }}"}
ARGS: list[dict[str, Any]] = [{"name": "floor"}, {"name": "n", "value": 50}]


def test_a_template_judges_by_the_arguments_that_are_given_and_tells_them(served: Served) -> None:
    check, shown = served.client.analyses.check, {"candidate": {"observations": [OK] * 200}}
    careful = template(FLOOR, args=ARGS)
    assert check(careful)["result"] is None
    found = check(careful, shown, args={"floor": 0.9})
    assert (found["result"], found["metrics"][0]["figures"]["bound"]) == ("pass", 0.9)
    assert found["args"] == [{"name": "floor", "value": "0.9"}, {"name": "n", "value": "50"}]
    for args, field in (({"floor": "high"}, "args.0.value"), ({"flor": 0.9}, "args.0.name"), ({}, "args")):
        with pytest.raises(InvalidRequest, match="The template careful") as raised:
            check(careful, shown, args=args)
        assert raised.value.field == field


def test_a_template_with_arguments_is_kept_as_it_was_written(served: Served) -> None:
    served.client.analyses.set(template(FLOOR, args=ARGS))
    kept = served.client.analyses.show("careful")["spec"]
    assert kept == {"metrics": [FLOOR], "args": [{"name": "floor"}, {"name": "n", "value": "50"}]}
    with pytest.raises(InvalidRequest, match=r"names the argument floor, which spec\.args does not declare") as raised:
        served.client.analyses.set(template(FLOOR, args=ARGS[1:]))
    assert raised.value.field == "spec.metrics.0.successCondition"

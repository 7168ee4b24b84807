"""The judge of rollouts on records that are there: who is taken back and who goes on, on which evidence, and when."""

from __future__ import annotations

from typing import Any

import pytest

from graftwork.access.events import read_events
from graftwork.errors import InvalidRequest
from graftwork.protocol.evaluations import AnyEvaluation
from graftwork.traffic.rollouts.rollout import Rollout
from support.court import Court
from support.rollouts import canary, hold, weight

SUCCESS = {
    "name": "success",
    "provider": {"rate": {"measure": "success_rate"}},
    "successCondition": "result >= 0.8",
    "interval": "10s",
    "count": 1,
}
FORM = {
    "name": "form",
    "provider": {"rate": {"measure": "format_valid_rate"}},
    "failureCondition": "result - stable < -0.05",
    "interval": "10s",
}
RATING = {
    "name": "rating",
    "provider": {"feedback": {"name": "rating"}},
    "failureCondition": "result - stable < -0.1",
    "interval": "10s",
}
SST2 = {
    "name": "sst2",
    "provider": {"evaluation": {"name": "sst2", "metric": "accuracy"}},
    "successCondition": "result - stable >= 0",
}
LENGTHS = {
    "name": "lengths",
    "provider": {"drift": {"of": "prompt_tokens"}},
    "failureCondition": "result > 0.2",
    "interval": "10s",
}
GATE = {"analysis": {"name": "careful"}}
GATED = canary(weight(50), GATE, weight(100), hold())


def begun(court: Court, *metrics: dict[str, Any], strategy: dict[str, Any] = GATED, **fields: Any) -> Rollout:
    """A rollout whose candidate has half of the keys."""
    court.set("careful", *metrics, **fields)
    court.bench.start(strategy)
    return court.bench.look()


def metric(found: Rollout, name: str) -> dict[str, Any]:
    [standing] = found.analyses
    told: dict[str, Any] = next(one for one in standing["metrics"] if one["name"] == name)
    return told


def test_a_good_canary_passes_its_gate_and_goes_on(court: Court) -> None:
    begun(court, SUCCESS, FORM)
    court.answers("candidate", 100)
    court.answers("stable", 100)
    after = court.bench.look(1)
    assert (after.state.share("candidate"), after.state.held) == (1.0, "step")
    passed = court.bench.rollouts.history("local", "support", page_size=9, page_token=None).items[2]
    assert passed["kind"] == "passed"
    [said] = passed["evidence"]["analyses"]
    assert (said["arm"], said["name"], said["revision"], said["result"]) == ("candidate", "careful", 1, "pass")
    assert [one["figures"]["n"] for one in said["metrics"]] == [100, 100]


@pytest.mark.parametrize(
    ("metric_", "bad", "figure"),
    [
        (SUCCESS, {"outcome": "error", "status": 500}, ("bound", 0.8)),
        (FORM, {"format_valid": False}, ("stable", 1.0)),
        (RATING, {"score": 0.1}, ("n_stable", 100)),
        (
            {**LENGTHS, "provider": {"drift": {"of": "prompt_tokens", "against": "stable"}}},
            {"prompt_tokens": 900},
            ("n", 100),
        ),
    ],
)
def test_a_bad_canary_is_taken_to_nothing_and_the_step_and_the_event_have_the_figures(
    court: Court, metric_: dict[str, Any], bad: dict[str, Any], figure: tuple[str, float]
) -> None:
    begun(court, metric_)
    court.answers("candidate", 100, **bad)
    court.answers("stable", 100, score=0.9)
    after = court.bench.look(1)
    assert after.state.status == "aborted" and after.state.reason.startswith("candidate failed: 1 of 1 metrics fail")
    assert set(court.bench.arms()) == {"support:1.0.0"}
    [last] = court.bench.rollouts.history("local", "support", page_size=1, page_token=None).items
    with court.desk.database.reading() as tx:
        *_, event = read_events(tx, "local", "rollouts/support")
    assert event.kind == "rollout.aborted" and event.payload["evidence"] == last["evidence"]
    [told] = event.payload["evidence"]["analyses"][0]["metrics"]
    assert (told["name"], told["result"], told["figures"][figure[0]]) == (metric_["name"], "fail", figure[1])
    assert metric(after, told["name"])["reason"] == told["reason"], "the status says it too, also afterwards"


def test_a_gate_beside_the_steps_aborts_in_the_middle_of_a_hold(court: Court) -> None:
    begun(court, FORM, strategy=canary(weight(5), hold("1h"), weight(50), analysis={"name": "careful"}))
    court.answers("stable", 100)
    assert court.bench.look(60).state.step == 1
    court.answers("candidate", 100, format_valid=False)
    after = court.bench.look(10)
    assert (after.state.status, after.state.slices[0].arm) == ("aborted", "stable")


def test_nothing_known_is_neither_and_says_how_many_answers_there_are(court: Court) -> None:
    begun(court, SUCCESS)
    court.answers("candidate", 7)
    after = court.bench.look(1)
    assert (after.state.status, after.state.step) == ("progressing", 1)
    told = metric(after, "success")
    assert (told["result"], told["figures"], told["looks"]) == (
        "inconclusive",
        {"found": 7.0, "wanted": 50.0},
        {"inconclusive": 1},
    )
    court.answers("candidate", 100)
    assert metric(court.bench.look(5), "success")["looks"] == {"inconclusive": 1}, "its interval is 10 s"
    assert court.bench.look(5).state.step == 3


def test_answers_of_the_rollout_before_or_of_another_tenant_count_for_nothing(court: Court) -> None:
    """R15: a new revision starts over."""
    first = begun(court, SUCCESS)
    court.bench.clock.pass_by(1)
    second = court.bench.start(GATED)
    court.bench.look()
    court.bench.clock.pass_by(1)
    court.answers("candidate", 100, of=first)  # late ones: they came when the second ran
    court.answers("candidate", 100, of=second, tenant="other")
    court.answers("candidate", 100, of=second, digest="sha256:" + "0" * 64)
    court.answers("candidate", 100, of=second, outcome="refused")
    court.answers("candidate", 3, of=second)
    after = court.bench.look(1)
    assert after.revision == 2 and metric(after, "success")["figures"]["found"] == 3


def test_answers_from_before_the_step_count_for_it_no_more_and_for_the_gate_beside_it_they_do(court: Court) -> None:
    court.set("all-along", FORM)
    begun(court, SUCCESS, strategy=canary(weight(5), hold("1m"), GATE, analysis={"name": "all-along"}))
    court.answers("candidate", 100)
    court.answers("stable", 100)
    court.bench.look(60)
    after = court.bench.look(10)
    found = {one["name"]: one["metrics"][0] for one in after.analyses}
    assert found["all-along"]["result"] == "pass" and found["careful"]["figures"]["found"] == 0


def test_what_came_less_than_settle_ago_does_not_count_yet(court: Court) -> None:
    begun(court, SUCCESS, settle="20s")
    court.answers("candidate", 100)
    assert metric(court.bench.look(10), "success")["figures"]["found"] == 0
    assert court.bench.look(10).state.step == 3


def test_evaluations_of_both_versions_are_compared_without_an_answer(court: Court) -> None:
    court.measure("support:1.0.0", 0.8)
    court.measure("support:2.0.0", 0.7)
    begun(court, SST2)
    after = court.bench.look(1)
    assert after.state.status == "aborted" and "result 0.7, stable 0.8" in after.state.reason


def test_drift_is_from_the_candidates_baseline_or_else_from_stables(court: Court) -> None:
    counted = {"edges": [1, 100, 1000], "counts": [1000, 0]}
    body = {"family": "drift", "name": "asked", "distributions": {"prompt_tokens": counted}}
    court.evaluations.add("local", "support:1.0.0", AnyEvaluation.model_validate(body).root, actor="me")
    begun(court, LENGTHS)
    court.answers("candidate", 200, prompt_tokens=500)
    after = court.bench.look(1)
    assert after.state.status == "aborted" and metric(after, "lengths")["figures"]["n"] == 200


def test_a_template_that_is_edited_changes_no_rollout_that_runs(court: Court) -> None:
    found = begun(court, SUCCESS)
    assert found.spec["strategy"]["canary"]["steps"][1]["analysis"] == {"name": "careful", "revision": 1}
    court.set("careful", {**SUCCESS, "successCondition": "result >= 0.1"})
    court.answers("candidate", 50)
    court.answers("candidate", 50, outcome="error")
    assert court.bench.look(1).state.status == "aborted"
    court.bench.start(GATED)
    court.bench.look()
    court.answers("candidate", 50)
    court.answers("candidate", 50, outcome="error")
    after = court.bench.look(1)
    assert (after.analyses[0]["revision"], after.analyses[0]["result"]) == (2, "pass")


def test_what_cannot_be_judged_by_is_refused_at_the_start(court: Court) -> None:
    def refused(analysis: dict[str, Any], strategy: str = "canary.steps.0.analysis") -> tuple[str, str]:
        with pytest.raises(InvalidRequest) as raised:
            court.bench.start(canary({"analysis": {"name": "careful", **analysis}}))
        place, _, field = str(raised.value.field).rpartition(f"spec.strategy.{strategy}.")
        assert not place and raised.value.message.startswith(f"{raised.value.field}: ")
        return field, raised.value.message

    assert refused({})[0] == "name"
    court.set("careful", SUCCESS)
    assert refused({"revision": 2})[0] == "revision"
    assert refused({"args": [{"name": "least", "value": 1}]})[0] == "args.0.name"
    court.set("careful", {**SUCCESS, "successCondition": "result >= {{args.least}}"}, args=[{"name": "least"}])
    assert refused({})[0] == "args"
    field, message = refused({"args": [{"name": "least", "value": "much"}]})
    assert field == "args.0.value"
    assert "The template careful with least = 'much': metric success: successCondition cannot be read" in message


LEAST = {**SUCCESS, "successCondition": "result >= {{args.least}}", "minSamples": "{{ args.n }}"}
LEAST_ARGS: list[dict[str, Any]] = [{"name": "least"}, {"name": "n", "value": 60}]


def test_a_rollout_keeps_what_arguments_stood_for_when_it_began_and_tells_it_with_its_verdicts(court: Court) -> None:
    court.set("careful", LEAST, args=LEAST_ARGS)
    given = [{"name": "least", "value": "0.8"}]
    court.bench.start(canary(weight(50), {"analysis": {"name": "careful", "args": given}}, weight(100), hold()))
    begun = court.bench.look()
    pinned = [*given, {"name": "n", "value": "60"}]
    assert begun.spec["strategy"]["canary"]["steps"][1]["analysis"]["args"] == pinned
    court.set("careful", LEAST, args=[{"name": "least"}, {"name": "n", "value": 10_000}])
    court.answers("candidate", 59)
    court.answers("stable", 100)
    waits = court.bench.look(1)
    assert "59 of at least 60 answers" in waits.analyses[0]["reason"]
    court.answers("candidate", 41)
    after = court.bench.look(10)
    assert after.state.held == "step"
    passed = court.bench.rollouts.history("local", "support", page_size=9, page_token=None).items[2]
    [said] = passed["evidence"]["analyses"]
    assert (said["revision"], said["args"], said["metrics"][0]["figures"]["bound"]) == (1, pinned, 0.8)


def test_one_template_judges_by_different_arguments_at_once(court: Court) -> None:
    court.set("careful", LEAST, args=LEAST_ARGS)

    def by(least: float) -> dict[str, Any]:
        return {"name": "careful", "args": [{"name": "least", "value": least}]}

    court.bench.start(canary(weight(50), {"analysis": by(0.1)}, hold(), analysis=by(0.99)))
    court.bench.look()
    court.answers("candidate", 100)
    court.answers("stable", 100)
    after = court.bench.look(1)
    assert (after.state.step, after.state.held) == (2, "step"), "the step's own passed, of the same moment on"
    beside = after.analyses[0]
    assert (beside["args"][0]["value"], beside["result"]) == ("0.99", "inconclusive")
    assert beside["metrics"][0]["figures"]["bound"] == 0.99


def test_looks_take_a_twentieth_of_the_time_whatever_the_template_says(court: Court) -> None:
    begun(court, {**FORM, "interval": "1ms"})
    court.answers("stable", 1)

    def looks(seconds: float) -> int:
        return int(sum(metric(court.bench.look(seconds), "form")["looks"].values()))

    assert [looks(0.5), looks(0.9), looks(0.1)] == [1, 1, 2]
    court.took_s = 1.0
    assert [looks(1), looks(19), looks(1)] == [3, 3, 4]


def test_who_takes_over_begins_the_looks_anew_and_comes_to_the_same(court: Court) -> None:
    begun(court, {**SUCCESS, "count": 3})
    court.answers("candidate", 100)
    court.bench.look(10)
    assert metric(court.bench.look(10), "success")["looks"] == {"pass": 2}
    court.bench.controller.close()
    court.bench.judged_by = court.judge_of()
    other = court.bench.controller_of("other")
    court.bench.clock.pass_by(10)
    other.look()
    now = court.bench.rollouts.get("local", "support")
    assert (metric(now, "success")["looks"], now.state.step) == ({"pass": 1}, 1)
    for _ in range(2):
        court.bench.clock.pass_by(10)
        other.look()
    assert court.bench.rollouts.get("local", "support").state.step == 3


def test_of_more_answers_than_are_looked_at_the_newest_count(court: Court) -> None:
    court.bench.judged_by = court.judge_of(most=60)
    court.bench.controller = court.bench.controller_of("one")
    begun(court, SUCCESS)
    court.answers("candidate", 100)
    court.bench.clock.pass_by(1)
    court.answers("candidate", 60, outcome="error")
    assert court.bench.look(1).state.status == "aborted"


def test_what_has_ended_is_forgotten(court: Court) -> None:
    begun(court, SUCCESS)
    court.bench.look(1)
    assert len(court.judge._going) == 1
    court.bench.rollouts.abort("local", "support", actor="ann")
    court.bench.look(1)
    assert court.judge._going == {}


SIMILAR = {
    "name": "similar",
    "provider": {"feedback": {"name": "similarity"}},
    "failureCondition": "result < 0.5",
    "interval": "10s",
}
SHADOWED = {"shadow": {"mirror": 100, **GATE}}


def test_an_arm_that_answers_nobody_is_judged_by_its_copies(court: Court) -> None:
    begun(court, SUCCESS, SIMILAR, strategy=SHADOWED)
    court.answers("stable", 100)
    court.copies(100)
    good = court.bench.look(1)
    assert (good.state.held, metric(good, "success")["result"]) == ("step", "pass")
    begun(court, SIMILAR, strategy=SHADOWED)
    court.copies(100, shadow="on the contrary, my friend")
    unlike = court.bench.look(11)
    assert unlike.state.status == "aborted" and "similar" in unlike.state.reason
    begun(court, SUCCESS, strategy=SHADOWED)
    court.copies(100, shadow=None, error="generation_failed")
    failing = court.bench.look(11)
    assert failing.state.status == "aborted" and "success" in failing.state.reason


def test_copies_count_before_the_first_weight_and_answers_after_it(court: Court) -> None:
    often = {**SUCCESS, "count": 9}
    begun(court, often, strategy=canary({"setMirror": 100}, GATE, weight(50), GATE, weight(100), hold()))
    court.answers("candidate", 100)
    assert court.bench.look(11).state.share("candidate") == 0, "it answers nobody yet"
    court.copies(100)
    assert shares_within(court, 9) == [0.5], "copies are answers as long as there are no others"
    court.copies(100)
    assert set(shares_within(court, 3)) == {0.5}
    court.answers("candidate", 100)
    assert shares_within(court, 9) == [1.0]


def shares_within(court: Court, looks: int) -> list[float]:
    """What the candidate has after each of so many looks, up to the first at which that is another."""
    before = court.bench.look().state.share("candidate")
    found = []
    for _ in range(looks):
        found.append(court.bench.look(11).state.share("candidate"))
        if found[-1] != before:
            return found[-1:]
    return found

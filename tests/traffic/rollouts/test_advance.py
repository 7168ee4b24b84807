"""The step function: weights as the plan says, an abort from anywhere, and nothing that was not decided."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graftwork.errors import Conflict, InvalidRequest
from graftwork.traffic.rollouts.advance import (
    Evidence,
    abort,
    advance,
    begin,
    forbid,
    pause,
    promote,
    resume,
    supersede,
)
from graftwork.traffic.rollouts.plan import STABLE, Plan, SetWeight
from graftwork.traffic.rollouts.state import ALL_STABLE, State
from graftwork.traffic.verdict import Result, Verdict
from support.rollouts import canary, hold, spec, weight

NOW = datetime(2026, 1, 31, 9, 30, tzinfo=UTC)
WARM = Evidence(ready=True)
GATE = {"analysis": {"name": "errors", "deadline": "1h"}}
STEPWISE = canary(weight(5), hold("10m"), GATE, weight(50), hold())


def plan_of(strategy: dict[str, Any], *candidates: Any) -> Plan:
    return Plan.of(spec("support", strategy, *candidates))


def later(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def verdicts(step: int, result: Result) -> Evidence:
    return Evidence(step=step, verdicts={"candidate": Verdict(result, "so it is", metric="errors")})


def test_a_canary_goes_through_its_steps_in_their_time_and_is_promoted_at_the_end() -> None:
    plan, state = plan_of(STEPWISE), begin(NOW, "")
    state, actions = advance(plan, state, NOW, Evidence())
    assert (state.status, actions) == ("warming", ())
    state, actions = advance(plan, state, NOW, WARM)
    assert ([one.kind for one in actions], state.share("candidate"), state.step) == (["warmed", "weight_set"], 0.05, 1)
    assert advance(plan, state, later(599), WARM) == (state, ())
    state, actions = advance(plan, state, later(600), verdicts(1, "pass"))
    assert ([one.kind for one in actions], state.step) == (["waited"], 2), (
        "a verdict of another step counts for nothing"
    )
    assert advance(plan, state, later(700), verdicts(2, "inconclusive"))[0] is state
    state, actions = advance(plan, state, later(800), verdicts(2, "pass"))
    assert [one.kind for one in actions] == ["passed", "weight_set", "held"]
    assert (state.share("candidate"), state.status, state.held) == (0.5, "paused", "step")
    assert advance(plan, state, later(9e6), WARM) == (state, ())
    state, _ = resume(state, later(9e6), "ann said so")
    state, (action,) = advance(plan, state, later(9e6), WARM)
    assert (action.kind, action.promote, state.status) == ("promoted", "candidate", "promoted")
    assert (state.share("candidate"), state.share("stable")) == (1.0, 0.0)


def test_a_failing_gate_takes_everything_back_at_once_whether_a_steps_or_that_of_all_the_time() -> None:
    plan = plan_of(canary(weight(50), GATE, analysis={"name": "latency"}))
    state, _ = advance(plan, begin(NOW, ""), NOW, WARM)
    bad = {"candidate": Verdict("fail", "7 of 90 failed", metric="errors")}
    for evidence in (Evidence(step=1, verdicts=bad), Evidence(background=bad)):
        for one in (state, pause(state, NOW, "")[0]):
            if evidence.verdicts and one.status == "paused":
                continue  # a step does not go on while it is paused, and so is not judged
            after, (action,) = advance(plan, one, later(1), evidence)
            assert (after.status, after.slices, action.kind) == ("aborted", ALL_STABLE, "aborted")
            assert after.reason == "candidate failed errors: 7 of 90 failed"


def test_a_gate_that_cannot_decide_in_its_time_asks_a_person_and_never_passes() -> None:
    plan = plan_of(canary(weight(50), GATE))
    state, _ = advance(plan, begin(NOW, ""), NOW, WARM)
    state, (action,) = advance(plan, state, later(3600), verdicts(1, "inconclusive"))
    assert (action.kind, state.status, state.held, state.share("candidate")) == ("held", "paused", "undecided", 0.5)
    assert "so it is" in state.reason


def test_a_hold_does_not_pass_while_somebody_has_paused_it() -> None:
    plan = plan_of(canary(weight(5), hold("10m"), weight(50), hold()))
    state, _ = advance(plan, begin(NOW, ""), NOW, WARM)
    state, _ = pause(state, later(60), "")
    assert pause(state, later(70), "again") == (state, ())
    assert advance(plan, state, later(9000), WARM) == (state, ())
    state, _ = resume(state, later(9000), "")
    assert advance(plan, state, later(9000 + 539), WARM) == (state, ())
    assert advance(plan, state, later(9000 + 540), WARM)[0].share("candidate") == 0.5
    with pytest.raises(Conflict, match="not paused"):
        resume(advance(plan, state, later(0), WARM)[0], NOW, "")


def test_what_the_policy_forbids_waits_for_a_person_and_is_tried_again() -> None:
    plan = plan_of(canary(weight(100)))
    state, _ = advance(plan, begin(NOW, ""), NOW, Evidence())
    state, (action,) = forbid(state, NOW, "its approval is pending")
    assert (action.promote, state.status, state.held) == (None, "paused", "forbidden")
    state, _ = resume(state, later(5), "approved")
    assert state.step == 0 and state.status == "warming"


def test_a_candidate_that_cannot_answer_or_a_pointer_that_moved_ends_it() -> None:
    plan = plan_of(STEPWISE)
    warming = begin(NOW, "")
    assert advance(plan, warming, NOW, Evidence(broken="It is gone."))[0].status == "aborted"
    state, _ = advance(plan, warming, NOW, WARM)
    ended, (action,) = advance(plan, state, NOW, Evidence(moved="It was moved."))
    assert (ended.status, ended.slices, action.promote) == ("superseded", ALL_STABLE, None)


def test_several_arms_are_split_and_one_is_promoted_by_name_only() -> None:
    plan = plan_of(
        {"split": {"weights": {"stable": 2, "b": 1, "c": 1}, "duration": "1d"}}, ("b", "support:2"), ("c", "support:3")
    )
    state, _ = advance(plan, begin(NOW, ""), NOW, WARM)
    assert [state.share(arm) for arm in ("stable", "b", "c")] == [0.5, 0.25, 0.25]
    state, actions = advance(plan, state, later(86_400), WARM)
    assert ([one.kind for one in actions], state.held) == (["waited", "held"], "step")
    with pytest.raises(InvalidRequest, match="b, c"):
        promote(plan, state, NOW, "")
    with pytest.raises(InvalidRequest, match="b, c"):
        promote(plan, state, NOW, "", "stable")
    after, (action,) = promote(plan, state, NOW, "better", "c")
    assert promote(plan, after, NOW, "again") == promote(plan, after, NOW, "again", "c") == (after, ())
    with pytest.raises(Conflict):
        promote(plan, after, NOW, "", "b")
    assert (after.status, action.promote) == ("promoted", "c")
    completed, _ = advance(plan, resume(state, NOW, "")[0], NOW, WARM)
    assert (completed.status, completed.slices) == ("completed", ALL_STABLE)


def test_blue_green_switches_everything_and_is_final_after_a_while() -> None:
    plan = plan_of({"blueGreen": {"autoPromotion": False, "scaleDownDelay": "30s"}})
    state, _ = advance(plan, begin(NOW, ""), NOW, WARM)
    assert (state.held, state.share("candidate")) == ("step", 0.0)
    state, _ = advance(plan, resume(state, NOW, "")[0], NOW, WARM)
    assert (state.share("candidate"), state.status) == (1.0, "progressing")
    assert abort(state, NOW, "no")[0].slices == ALL_STABLE
    assert advance(plan, state, later(30), WARM)[0].status == "promoted"


def test_a_shadow_answers_nobody_and_moves_nothing() -> None:
    plan = plan_of({"shadow": {"mirror": 10, "duration": "1h"}})
    state, _ = advance(plan, begin(NOW, ""), NOW, WARM)
    assert (state.mirror, state.slices) == (("candidate", 0.1), ALL_STABLE)
    state, (_, action) = advance(plan, state, later(3600), WARM)
    assert (state.status, state.mirror, action.promote) == ("completed", None, None)
    assert state.reason == "All steps are done."


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ({"candidate": Verdict("pass", "so it is")}, "All steps are done."),
        (
            {"candidate": Verdict("inconclusive", "0 of 50.")},
            "All steps are done, and errors stayed undecided. candidate: 0 of 50.",
        ),
        ({}, "All steps are done, and errors stayed undecided."),
    ],
)
def test_an_end_by_time_alone_says_what_stayed_undecided(found: dict[str, Verdict], said: str) -> None:
    plan = plan_of({"shadow": {"mirror": 10, "duration": "1h", "analysis": {"name": "errors"}}})
    state, _ = advance(plan, begin(NOW, ""), NOW, WARM)
    state, _ = advance(plan, state, later(3600), Evidence(ready=True, background=found))
    assert (state.status, state.reason) == ("completed", said)


STEPS = st.lists(
    st.one_of(
        st.integers(0, 100).map(weight),
        st.sampled_from([hold(), hold("10s"), hold("0s")]),
        st.just({"analysis": {"name": "errors"}}),
    ),
    min_size=1,
    max_size=6,
)
TOLD = st.lists(
    st.tuples(
        st.sampled_from(["look", "look", "look", "pause", "resume", "promote", "abort"]),
        st.sampled_from([0.0, 5.0, 20.0]),
        st.sampled_from(["pass", "fail", "inconclusive", None]),
        st.booleans(),
    ),
    max_size=25,
)


@given(STEPS, TOLD)
def test_whatever_is_told_and_seen_weights_are_the_plans_and_ends_are_ends(
    steps: list[dict[str, Any]], told: list[tuple[str, float, Result | None, bool]]
) -> None:
    plan, state, now = plan_of(canary(*steps)), begin(NOW, ""), NOW
    allowed = {0.0, *(one.shares["candidate"] for one in plan.steps if isinstance(one, SetWeight))}
    for what, seconds, result, ready in told:
        now += timedelta(seconds=seconds)
        before = state
        state, actions = _told(plan, state, now, what, result, ready)
        assert [one.before for one in actions] == [before, *(one.after for one in actions)][: len(actions)]
        assert (actions[-1].after if actions else before) == state
        _check(plan, before, state, allowed)
        assert {one.promote for one in actions} <= {None, "candidate"}
        assert (state.status == "promoted") == (
            before.status == "promoted" or "promoted" in {one.kind for one in actions}
        )
        if what == "abort" and before.status not in ("promoted",):
            assert (state.status, state.share("candidate")) == ("aborted", 0.0)
        if result == "fail" and what == "look" and before.status == "progressing" and _judged(plan, before):
            assert state.status == "aborted"


def _told(plan: Plan, state: State, now: datetime, what: str, result: Result | None, ready: bool) -> Any:
    try:
        match what:
            case "pause":
                return pause(state, now, "")
            case "resume":
                return resume(state, now, "")
            case "promote":
                return promote(plan, state, now, "")
            case "abort":
                return abort(state, now, "")
    except Conflict:
        return state, ()
    said = {} if result is None else {"candidate": Verdict(result, "")}
    return advance(plan, state, now, Evidence(ready=ready, step=state.step, verdicts=said))


def _check(plan: Plan, before: State, state: State, allowed: set[float]) -> None:
    assert state.share("candidate") in (allowed if not state.ended else {float(state.status == "promoted")})
    assert state.step >= before.step and state.step <= len(plan.steps)
    assert state.share("candidate") + state.share(STABLE) == pytest.approx(1)
    assert (state.status == "paused") == (state.held is not None) == (state.held_at is not None)
    if state.started_at is None and not state.ended:
        assert state.share("candidate") == 0.0, "what is not warm has no weight"
    if before.ended:
        assert state == before
    assert State.from_json(state.to_json()) == state


def _judged(plan: Plan, state: State) -> bool:
    return state.step < len(plan.steps) and type(plan.steps[state.step]).__name__ == "Analysis"


def test_ends_cannot_be_told_anything_but_what_they_are() -> None:
    plan, state = plan_of(canary(weight(10))), begin(NOW, "")
    aborted, _ = abort(state, NOW, "")
    assert abort(aborted, NOW, "again") == (aborted, ())
    promoted, _ = promote(plan, state, NOW, "")
    assert promote(plan, promoted, NOW, "again") == (promoted, ())
    for ended, tell in ((aborted, promote), (promoted, None)):
        with pytest.raises(Conflict, match="begins anew"):
            abort(ended, NOW, "") if tell is None else promote(plan, ended, NOW, "")
        with pytest.raises(Conflict):
            pause(ended, NOW, "")
    assert supersede(state, NOW, "another")[0].slices == ALL_STABLE

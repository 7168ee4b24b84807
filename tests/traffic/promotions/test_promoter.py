"""Promotion policies: what starts by itself, what it waits for, and that nothing is promoted past a gate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from shutil import copy
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graftwork.access.events import read_events
from graftwork.errors import InvalidRequest, Unavailable
from graftwork.protocol.promotions import PromotionSpec
from graftwork.protocol.rollouts import RolloutSpec
from graftwork.registry.rules.stages import Stage
from graftwork.registry.versions import Version
from graftwork.traffic.promotions.candidates import candidates
from graftwork.traffic.promotions.promoter import Promoter
from graftwork.traffic.promotions.promotions import promotion_text
from graftwork.traffic.rollouts.rollouts import CONTROLLER
from support.court import Court
from support.desk import Desk
from support.rollouts import canary, hold, weight

LIVE_GATE = {
    "name": "success",
    "provider": {"rate": {"measure": "success_rate"}},
    "successCondition": "result >= 0.8",
    "interval": "1s",
}
ACCURACY = {
    "name": "accuracy",
    "provider": {"evaluation": {"name": "sst2", "metric": "accuracy"}},
    "successCondition": "result >= 0.7",
}
STRATEGY = canary(weight(50), {"analysis": {"name": "live"}})


def policy(court: Court, name: str = "auto", **more: Any) -> None:
    spec = {"adapters": "sup*", "when": {"stage": "staging"}, "gate": {"name": "evals"}, "strategy": STRATEGY, **more}
    told = {key: value for key, value in spec.items() if value is not None}
    court.promotions.set("local", name, PromotionSpec.model_validate(told), actor="me")


def stage(court: Court, reference: str, to: Stage = "staging") -> None:
    court.desk.lifecycle.set_stage("local", reference, to, actor="me")


def templates(court: Court) -> None:
    court.set("live", LIVE_GATE)
    court.set("evals", ACCURACY)


def lacks(court: Court, promoter: Promoter, name: str = "auto") -> list[str]:
    [found] = promoter.standing(court.promotions.show("local", name)).items
    return list(found.found.waits_for)


def newest(court: Court) -> tuple[int, str]:
    found = court.bench.rollouts.list("local").items
    return (found[0].revision, found[0].state.status) if found else (0, "")


@pytest.fixture
def promoter(court: Court) -> Promoter:
    templates(court)
    return court.promoter_of("one")


def test_a_version_in_staging_that_passes_is_rolled_out_and_promoted_and_says_why(
    court: Court, promoter: Promoter
) -> None:
    policy(court)
    assert promoter.look() == 0 and promoter.standing(court.promotions.show("local", "auto")).items == ()
    stage(court, "support:2.0.0")
    assert promoter.look() == 0
    [said] = lacks(court, promoter)
    assert said.startswith("The gate evals: 1 of 1 metrics inconclusive. accuracy: no offline evaluation sst2")
    court.measure("support:2.0.0", 0.9)
    assert (promoter.look(), promoter.look()) == (1, 0)
    began = court.bench.rollouts.get("local", "support")
    assert (began.created_by, began.state.status) == ("promotion:auto/1", "warming")
    assert began.state.reason == "Promotion policy auto/1: support:2.0.0 is in staging, and passes evals."
    with court.desk.database.reading() as tx:
        *_, event = read_events(tx, "local", "rollouts/support")
    assert event.payload["evidence"]["gate"]["metrics"][0]["figures"]["value"] == 0.9
    court.bench.look()
    court.answers("candidate", 100)
    court.bench.look(1)
    assert court.desk.registry.resolve("local", "support@production").semver == "2.0.0"
    assert court.desk.stages("support")["2.0.0"] == "production"
    assert promoter.look() == 0


def test_what_its_gates_take_back_is_not_begun_again_by_itself(court: Court, promoter: Promoter) -> None:
    policy(court)
    stage(court, "support:2.0.0")
    court.measure("support:2.0.0", 0.9)
    assert promoter.look() == 1
    court.bench.look()
    court.answers("candidate", 100, outcome="error")
    assert court.bench.look(1).state.status == "aborted"
    court.measure("support:2.0.0", 0.95)
    for _ in range(3):
        assert promoter.look() == 0
    policy(court, approved=False)  # another revision
    assert (promoter.look(), court.promoter_of("one").look()) == (0, 0)
    assert lacks(court, promoter) == ["The rollout support/1 of it was aborted; it is not begun again by itself."]
    court.bench.rollouts.retry("local", "support", actor="ann", reason="by hand", once=None)
    assert newest(court) == (2, "warming"), "a person may"


def test_what_the_policy_of_the_registry_or_people_forbid_is_not_begun(court: Court, promoter: Promoter) -> None:
    policy(court, gate=None)
    court.desk.demand("production")
    stage(court, "support:2.0.0")
    assert promoter.look() == 0
    assert lacks(court, promoter) == ["The policy keeps it out of production: its approval is pending."]
    court.desk.approve("support:2.0.0", "ann")
    court.desk.reject("support:2.0.0", "bob")
    assert promoter.look() == 0 and "Its approval is rejected." in lacks(court, promoter)
    court.desk.approve("support:2.0.0", "bob")
    assert promoter.look() == 1


def test_an_approval_may_be_asked_for_by_the_policy_alone(court: Court, promoter: Promoter) -> None:
    policy(court, gate=None, approved=True)
    stage(court, "support:2.0.0")
    assert promoter.look() == 0 and lacks(court, promoter) == ["Its approval is pending."]
    court.desk.approve("support:2.0.0")
    assert promoter.look() == 1


def test_an_alias_makes_a_candidate_whatever_its_stage(court: Court, promoter: Promoter) -> None:
    policy(court, gate=None, when={"alias": "candidate"})
    assert promoter.look() == 0
    court.desk.registry.set_alias("local", "support", "candidate", "support:3.0.0", actor="me")
    assert promoter.look() == 1
    assert court.bench.rollouts.get("local", "support").arms["candidate"].semver == "3.0.0"


def test_only_the_newest_in_staging_that_is_newer_than_production_is_meant(court: Court, promoter: Promoter) -> None:
    court.desk.promote("support:2.0.0")
    stage(court, "support:1.0.0")
    policy(court, gate=None)
    assert promoter.look() == 0, "it was pushed before what is in production"
    stage(court, "support:3.0.0")
    assert promoter.look() == 1
    assert court.bench.rollouts.get("local", "support").arms["candidate"].semver == "3.0.0"


def test_one_that_runs_is_waited_for_whoever_began_it(court: Court, promoter: Promoter) -> None:
    court.bench.start(canary(weight(10), hold()))
    policy(court, gate=None)
    stage(court, "support:3.0.0")
    assert promoter.look() == 0 and lacks(court, promoter) == ["The rollout support/1 is not over."]
    court.bench.rollouts.abort("local", "support", actor="ann")
    assert promoter.look() == 1


def test_what_cannot_begin_says_why_and_the_others_go_on(court: Court, promoter: Promoter) -> None:
    court.desk.push(7, "support-b", semver="1.0.0")
    stage(court, "support-b:1.0.0")
    stage(court, "support:2.0.0")
    policy(court, gate=None)
    assert promoter.look() == 1 and newest(court)[0] == 1
    [other] = [
        one
        for one in promoter.standing(court.promotions.show("local", "auto")).items
        if one.version.adapter != "support"
    ]
    assert "nothing in production" in other.found.waits_for[0]
    policy(court, "lost", gate=None, adapters="support", strategy=canary(weight(5), {"analysis": {"name": "gone"}}))
    assert promoter.look() == 0


def test_servers_begin_it_once_and_one_that_lost_the_lease_begins_nothing(court: Court, promoter: Promoter) -> None:
    policy(court, gate=None)
    other = court.promoter_of("other")
    assert promoter._lease.hold() is not None
    stage(court, "support:2.0.0")
    assert other.look() == 0
    held = promoter._lease.hold()
    promoter._lease.release()
    assert other.look() == 1
    assert held is not None
    live = court.promotions.show("local", "auto")
    version = court.desk.registry.resolve("local", "support:2.0.0")
    court.bench.rollouts.abort("local", "support", actor="ann")
    with pytest.raises(Unavailable, match="lease"):
        promoter._begin(live, version, held, court.bench.clock.now)
    assert newest(court)[0] == 1


@pytest.mark.parametrize("error", [Unavailable("Not now."), ValueError("a mistake of ours")])
def test_what_failed_is_tried_again_though_the_log_tells_nothing_and_the_others_go_on(
    court: Court, promoter: Promoter, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    desk, rollouts = court.desk, court.bench.rollouts
    desk.push(7, "support-b", semver="1.0.0")
    desk.promote("support-b:1.0.0")
    desk.push(8, "support-b", semver="1.1.0")
    for reference in ("support:2.0.0", "support-b:1.1.0"):
        stage(court, reference)
    policy(court, gate=None)
    snapshot = court.bench.snapshot()
    monkeypatch.setattr(promoter, "_snapshot", lambda: snapshot)
    prepared = rollouts.prepared

    def failing(tenant: str, spec: RolloutSpec) -> Any:
        if spec.route == "support":
            raise error
        return prepared(tenant, spec)

    monkeypatch.setattr(rollouts, "prepared", failing)
    assert promoter.look() == 1
    monkeypatch.setattr(rollouts, "prepared", prepared)
    assert promoter.look() == 1
    assert (rollouts.get("local", "support").revision, rollouts.get("local", "support-b").revision) == (1, 1)


def test_after_each_scan_it_rests_whether_something_was_due_or_not(
    court: Court, promoter: Promoter, monkeypatch: pytest.MonkeyPatch
) -> None:
    court.took_s, scans = 1.0, 0
    whole = candidates

    def counted(*told: Any) -> Iterator[Version]:
        nonlocal scans
        scans += 1
        return whole(*told)

    monkeypatch.setattr("graftwork.traffic.promotions.promoter.candidates", counted)
    policy(court, gate=None)  # nothing is in staging
    for _ in range(100):  # of a second each, and of a new snapshot
        promoter.look()
    assert 1 < scans <= 6


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"adapters": "*sup*"}, "spec.adapters"),
        ({"strategy": {"split": {}}}, "spec.strategy"),
        ({"strategy": {"shadow": {"mirror": 5}}}, "spec.strategy"),
        ({"route": "Not A Name"}, None),
    ],
)
def test_a_policy_that_could_never_promote_is_refused(wrong: dict[str, Any], field: str | None) -> None:
    spec = {"adapters": "support", "when": {"stage": "staging"}, "strategy": STRATEGY, **wrong}
    with pytest.raises(InvalidRequest) as raised:
        promotion_text(PromotionSpec.model_validate(spec))
    assert field is None or raised.value.field == field


VERSIONS = st.sampled_from(["2.0.0", "3.0.0"])
#: One word of what people and servers do; what lets a version through is commoner than it would be by chance.
STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["stage", "good", "bad", "approve", "reject"]), VERSIONS),
        st.tuples(st.just("all is well"), VERSIONS),
        st.tuples(st.sampled_from(["policy", "policy of the route", "change hands", "errors"]), st.just("")),
        st.tuples(st.sampled_from(["answers", "look"]), st.just("")),
        st.tuples(st.just("look"), st.just("")),
    ),
    min_size=5,
    max_size=40,
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database in a file, with three versions of which the first is in production."""
    path = tmp_path_factory.mktemp("made") / "made.db"
    desk = Desk(f"sqlite:///{path}")
    for content in (1, 2, 3):
        desk.push(content, "support", semver=f"{content}.0.0")
    desk.promote("support:1.0.0")
    desk.database.close()
    return path


@settings(max_examples=40)
@given(steps=STEPS)
def test_no_version_is_promoted_past_a_gate_an_approval_or_another_rollout(
    made: Path, steps: Sequence[tuple[str, str]]
) -> None:
    """Whatever people do meanwhile, and whichever of two servers acts."""
    with TemporaryDirectory() as folder:
        desk = Desk(f"sqlite:///{copy(made, Path(folder) / 'one.db')}")
        desk.clock.now += timedelta(minutes=1)
        try:
            run(Court(desk), steps)
        finally:
            desk.database.close()


def run(court: Court, steps: Sequence[tuple[str, str]]) -> None:
    desk = court.desk
    templates(court)
    policy(court, approved=True)
    promoters = [court.promoter_of("one"), court.promoter_of("two")]
    controllers = [court.bench.controller_of("one"), court.bench.controller_of("two")]
    good, approved, acting, known = set[str](), set[str](), 0, 0
    for word, version in [*steps, ("look", "")]:
        reference = f"support:{version}"
        if word in ("stage", "all is well") and desk.stages("support")[version] == "development":
            stage(court, reference)
        if word in ("good", "bad", "all is well"):
            court.measure(reference, 0.2 if word == "bad" else 0.9)
            (good.discard if word == "bad" else good.add)(version)
        if word in ("approve", "all is well"):
            desk.approve(reference)
            approved.add(version)
        if word == "reject":
            desk.reject(reference)
            approved.discard(version)
        if word in ("answers", "errors") and known:
            court.answers("candidate", 60, outcome="ok" if word == "answers" else "error")
        if word.startswith("policy"):
            policy(court, approved=True, route="support" if "route" in word else None)
        if word == "change hands":
            controllers[acting].close()
            promoters[acting]._lease.release()
            acting = 1 - acting
        if word == "look":
            court.bench.clock.pass_by(2)
            controllers[acting].look()
            begun = promoters[acting].look()
            after, status = newest(court)
            assert after - known == begun <= 1, "one of a route at a time"
            if begun:
                candidate = court.bench.rollouts.get("local", "support").arms["candidate"].semver
                assert candidate in good and candidate in approved and status == "warming"
            known = after
    check(court)


def check(court: Court) -> None:
    """By the log alone: who was promoted had passed, and nothing was begun twice by one revision or after its end."""
    with court.desk.database.reading() as tx:
        told = [one for one in read_events(tx, "local", "rollouts/support") if one.kind != "rollout.warmed"]
    begun: list[tuple[str, str]] = []
    ended: set[str] = set()
    passed = live = False
    version = ""
    for event in told:
        match event.kind:
            case "rollout.started":
                version, passed = event.payload["arms"]["candidate"]["version"], False
                assert not live and version not in ended and event.payload["evidence"]["gate"]["result"] == "pass"
                assert (event.actor, version) not in begun
                begun.append((event.actor, version))
                live = True
            case "rollout.passed":
                passed = True
            case "rollout.promoted":
                assert passed and event.actor == CONTROLLER and event.payload["version"] == version
                ended.add(version)
                live = False
            case "rollout.aborted":
                ended.add(version)
                live = False
            case "rollout.superseded":
                live = False


def test_arguments_that_do_not_fit_are_what_a_candidate_waits_for_and_those_that_do_are_told(
    court: Court, promoter: Promoter
) -> None:
    floor = {"args": [{"name": "floor"}]}
    court.set("evals", {**ACCURACY, "successCondition": "result >= {{args.floor}}"}, **floor)
    court.set("live", {**LIVE_GATE, "successCondition": "result >= {{args.floor}}"}, **floor)
    court.measure("support:2.0.0", 0.9)
    stage(court, "support:2.0.0")
    policy(court)
    gate, live = (f"The template {name} needs a value for floor" for name in ("evals", "live"))
    assert [one.partition(":")[0] for one in lacks(court, promoter)] == ["spec.strategy", "The gate evals"]
    assert live in lacks(court, promoter)[0] and gate in lacks(court, promoter)[1]
    args = [{"name": "floor", "value": 0.8}]
    by = canary(weight(50), {"analysis": {"name": "live", "args": args}})
    policy(court, gate={"name": "evals", "args": args}, strategy=by)
    assert not lacks(court, promoter)
    assert promoter.look() == 1
    [started] = court.bench.rollouts.history("local", "support", page_size=1, page_token=None).items
    assert started["evidence"]["gate"]["args"] == [{"name": "floor", "value": "0.8"}]

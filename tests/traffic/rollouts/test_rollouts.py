"""Rollouts in a database: what is written together, who may change what, and which version answers meanwhile."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import delete, update
from sqlalchemy.exc import DBAPIError

from graftwork.access.events import read_events
from graftwork.db.schema import rollout_arms, rollout_steps
from graftwork.errors import Conflict, Forbidden, Held, InvalidRequest, NotFound, PreconditionFailed
from graftwork.registry.idempotency import Once
from graftwork.registry.retention.deletion import Deletions
from graftwork.registry.snapshot import read_snapshot
from graftwork.traffic.choice import choose
from graftwork.traffic.decision import Asked
from graftwork.traffic.rollouts.live import LiveRollouts
from graftwork.traffic.rollouts.rollouts import Rollouts
from support.rollouts import PARTS, Bench, canary, hold, spec, weight

GATE = {"analysis": {"name": "errors"}}
STEPWISE = canary(weight(20), hold("10m"), GATE, weight(50), hold("10m"))
TOLD: dict[str, Any] = {"actor": "ann", "reason": "because"}


def production(bench: Bench) -> str:
    return bench.desk.registry.resolve("local", "support@production").semver


def test_a_good_canary_earns_its_traffic_and_moves_the_alias_in_the_transaction_of_its_end(bench: Bench) -> None:
    started = bench.start(STEPWISE)
    assert (started.state.status, started.revision, set(bench.arms())) == ("warming", 1, {"support:1.0.0"})
    bench.look()
    assert 20 < bench.arms()["support:2.0.0"] < 60
    bench.judge.says["candidate"] = "pass"
    bench.look(600)
    assert bench.look().state.share("candidate") == 0.5
    assert production(bench) == "1.0.0"
    done = bench.look(600)
    assert (done.state.status, production(bench)) == ("promoted", "2.0.0")
    assert done.ended_at is not None and set(bench.arms()) == {"support:2.0.0"}
    assert bench.desk.stages("support")["1.0.0"] == "archived"
    with bench.desk.database.reading() as tx:
        *_, alias, last = read_events(tx, "local")
    assert (alias.kind, last.kind, alias.at) == ("version.promoted", "rollout.promoted", last.at)
    assert alias.payload["reason"] == "Rollout support/1: All steps are done."
    assert (last.actor, last.payload["version"]) == ("rollout-controller", "2.0.0")


def test_every_change_is_an_event_with_before_after_and_reason_and_a_row_that_stays(bench: Bench) -> None:
    bench.start(STEPWISE, reason="a new model")
    bench.look()
    bench.rollouts.pause("local", "support", **TOLD)
    bench.rollouts.resume("local", "support", **TOLD)
    bench.rollouts.abort("local", "support", actor="bob", reason="it is rude")
    kinds = ["started", "warmed", "weight_set", "paused", "resumed", "aborted"]
    assert bench.kinds() == [f"rollout.{kind}" for kind in kinds]
    page = bench.rollouts.history("local", "support", page_size=4, page_token=None)
    rest = bench.rollouts.history("local", "support", page_size=4, page_token=page.next_page_token)
    assert [one["kind"] for one in (*page.items, *rest.items)] == kinds[::-1] and rest.next_page_token is None
    last = page.items[0]
    assert (last["actor"], last["reason"], last["before"]["weights"], last["after"]["weights"]) == (
        "bob",
        "it is rude",
        {"candidate": 20.0, "stable": 80.0},
        {"stable": 100.0},
    )
    for table in (rollout_steps, rollout_arms):
        for statement in (delete(table), update(table).values(route="other")):
            with pytest.raises(DBAPIError, match="append-only"), bench.desk.database.transaction() as tx:
                tx.execute(statement)


def test_an_abort_leaves_no_weight_and_is_done_once(bench: Bench) -> None:
    bench.start(canary(weight(50), hold()))
    bench.look()
    assert len(bench.arms()) == 2
    first = bench.rollouts.abort("local", "support", **TOLD)
    assert set(bench.arms()) == {"support:1.0.0"}
    assert bench.rollouts.abort("local", "support", **TOLD) == first
    assert bench.kinds().count("rollout.aborted") == 1
    assert bench.look(9000).state.status == "aborted"
    with pytest.raises(NotFound):
        bench.rollouts.abort("local", "elsewhere", **TOLD)


def test_after_a_promotion_there_is_nothing_to_abort_and_the_message_says_what_to_do(bench: Bench) -> None:
    bench.start(canary(weight(50), hold()))
    bench.look()
    bench.rollouts.promote("local", "support", **TOLD)
    assert production(bench) == "2.0.0"
    with pytest.raises(Conflict, match="graftwork rollback"):
        bench.rollouts.abort("local", "support", **TOLD)
    assert production(bench) == "2.0.0"


def test_a_promotion_is_not_said_again_when_the_route_was_moved_since(bench: Bench) -> None:
    bench.start(STEPWISE)
    bench.rollouts.promote("local", "support", **TOLD)
    assert bench.rollouts.promote("local", "support", **TOLD).state.status == "promoted", "done once"
    bench.desk.registry.rollback("local", "support", actor="ann")
    with pytest.raises(
        Conflict, match=r"promoted support:2\.0\.0, but support was moved since, and means support:1\.0\.0"
    ):
        bench.rollouts.promote("local", "support", **TOLD)
    assert (production(bench), len(bench.kinds())) == ("1.0.0", 2)


def test_a_new_revision_supersedes_and_starts_over(bench: Bench) -> None:
    bench.start(STEPWISE)
    bench.look()
    bench.judge.says["candidate"] = "pass"
    second = bench.start(STEPWISE, "support:3.0.0")
    assert (second.revision, second.state.status, second.state.step) == (2, "warming", 0)
    assert set(bench.arms()) == {"support:1.0.0"}
    assert bench.kinds()[-2:] == ["rollout.superseded", "rollout.started"]
    after = bench.look()
    assert (after.state.step, after.state.share("candidate")) == (1, 0.2), "no verdict on the last one counts for it"
    assert len(bench.snapshot().part(LiveRollouts).by_route) == 1


def test_whoever_moves_the_pointer_by_hand_has_the_last_word_before_anybody_looks(bench: Bench) -> None:
    bench.desk.promote("support:3.0.0")
    bench.start(canary(weight(50), hold()))
    bench.look()
    assert set(bench.arms()) == {"support:2.0.0", "support:3.0.0"}
    bench.desk.registry.rollback("local", "support", actor="ann")
    assert set(bench.arms()) == {"support:1.0.0"}, "a rollback takes the target and the weights back in one step"
    after = bench.look()
    assert (after.state.status, production(bench)) == ("superseded", "1.0.0")
    assert "made to mean support:1.0.0" in after.state.reason


def test_a_promotion_undoes_no_rollback_that_came_a_moment_before(bench: Bench) -> None:
    bench.desk.promote("support:3.0.0")
    bench.start(canary(weight(50), hold("10s")))
    bench.look()
    bench.clock.pass_by(10)
    stale = bench.snapshot()
    bench.desk.registry.rollback("local", "support", actor="ann")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bench.controller, "_snapshot", lambda: stale)
        assert bench.controller.look() == 0
    with pytest.raises(Conflict, match=r"made to mean support:1\.0\.0"):
        bench.rollouts.promote("local", "support", **TOLD)
    assert production(bench) == "1.0.0"
    assert bench.look().state.status == "superseded"


def test_a_candidate_that_the_policy_forbids_gives_its_keys_back_before_anybody_looks(bench: Bench) -> None:
    for version in ("1.0.0", "2.0.0"):
        bench.desk.approve(f"support:{version}")
    bench.desk.demand("serving")
    bench.start(canary(weight(50), hold()))
    bench.look()
    assert len(bench.arms()) == 2
    bench.desk.reject("support:2.0.0")
    assert set(bench.arms()) == {"support:1.0.0"}
    after = bench.look()
    assert after.state.status == "aborted" and "rejected" in after.state.reason


def test_what_the_policy_does_not_let_into_production_waits_there_and_goes_on_when_it_may(bench: Bench) -> None:
    bench.desk.demand("production")
    bench.start(canary(weight(50)))
    after = bench.look()
    assert (after.state.status, after.state.held, production(bench)) == ("paused", "forbidden", "1.0.0")
    assert "approval is pending" in after.state.reason
    assert bench.look(60).changes == after.changes, "it waits for a person"
    with pytest.raises(Forbidden, match="approval is pending"):
        bench.rollouts.promote("local", "support", **TOLD)
    bench.desk.approve("support:2.0.0")
    bench.rollouts.resume("local", "support", **TOLD)
    assert (bench.look().state.status, production(bench)) == ("promoted", "2.0.0")


def test_what_a_rollout_is_about_is_not_deleted_while_it_runs(bench: Bench) -> None:
    bench.start(canary(weight(50), hold()))
    deletions = Deletions(bench.desk.database, bench.desk.clock)
    with pytest.raises(Held, match=r"a rollout of support is about support:2\.0\.0"):
        deletions.delete("local", "support:2.0.0", actor="ann", reason=None)
    bench.rollouts.abort("local", "support", **TOLD)
    deletions.delete("local", "support:2.0.0", actor="ann", reason=None)
    with pytest.raises(NotFound):
        bench.rollouts.retry("local", "support", once=None, **TOLD)


def test_an_aborted_one_can_be_tried_again_and_no_other(bench: Bench) -> None:
    first = bench.start(STEPWISE)
    with pytest.raises(Conflict, match="only an aborted one"):
        bench.rollouts.retry("local", "support", once=None, **TOLD)
    bench.rollouts.abort("local", "support", **TOLD)
    once = Once("again", "sha256:" + "1" * 64)
    again = bench.rollouts.retry("local", "support", once=once, **TOLD)
    assert (again.revision, again.state.status, again.plan) == (2, "warming", first.plan)
    assert bench.start(STEPWISE, once=once).revision == 2, "the same key, the same answer"


def test_what_a_route_cannot_be_moved_to_is_refused(bench: Bench) -> None:
    bench.desk.push(4, "billing")
    bench.desk.push(5, "support", semver="4.0.0", base_digest="sha256:" + "c" * 64)
    for candidates, message in (
        (("support:1.0.0",), "is the arm stable already"),
        ((("b", "support:2.0"), ("c", "support:2.0.0")), "is the arm b already"),
        (("billing",), "is not a version of support"),
        (("support:4.0.0",), "another base"),
    ):
        strategy = {"split": {}} if len(candidates) > 1 else canary(weight(1))
        with pytest.raises(Conflict, match=message):
            bench.start(strategy, *candidates)
    for candidate in ("support:9.0.0", "acme/support:2.0.0"):
        with pytest.raises(NotFound):
            bench.start(canary(weight(1)), candidate)
    with pytest.raises(Conflict, match="nothing in production"):
        bench.rollouts.start("local", spec("billing", canary(weight(1)), "billing"), once=None, **TOLD)
    said = spec("support", canary(weight(1))).model_copy(update={"stable": "support:3.0.0"})
    with pytest.raises(Conflict, match=r"means support:1\.0\.0 now"):
        bench.rollouts.start("local", said, once=None, **TOLD)
    assert bench.kinds() == []


def test_what_nobody_here_can_do_is_refused_by_name(bench: Bench) -> None:
    with pytest.raises(InvalidRequest, match="no template unknown"):
        bench.start(canary({"analysis": {"name": "unknown"}}))
    with pytest.raises(InvalidRequest, match="nothing here judges"):
        Rollouts(bench.desk.database).start("local", spec("support", STEPWISE), once=None, **TOLD)


def test_another_tenants_rollouts_are_not_there(bench: Bench) -> None:
    bench.start(STEPWISE)
    assert bench.rollouts.list("acme").items == ()
    for ask in (bench.rollouts.get, lambda *where: bench.rollouts.abort(*where, **TOLD)):
        with pytest.raises(NotFound):
            ask("acme", "support")


def test_who_expects_another_revision_changes_nothing(bench: Bench) -> None:
    bench.start(STEPWISE)
    with pytest.raises(PreconditionFailed, match="is revision 1, not 2"):
        bench.rollouts.abort("local", "support", expected=2, **TOLD)
    assert bench.rollouts.abort("local", "support", expected=1, **TOLD).state.status == "aborted"


def test_the_newest_rollout_of_each_route_is_listed_page_by_page(bench: Bench) -> None:
    for number, name in enumerate(("a", "b", "c"), 10):
        bench.desk.push(number, name, semver="1.0.0")
        bench.desk.promote(f"{name}:1.0.0")
        bench.desk.push(number + 10, name, semver="2.0.0")
        for _ in range(2):
            bench.rollouts.start("local", spec(name, canary(weight(1), hold())), once=None, **TOLD)
    first = bench.rollouts.list("local", page_size=2)
    assert [(one.route, one.revision) for one in first.items] == [("a", 2), ("b", 2)]
    second = bench.rollouts.list("local", page_size=2, page_token=first.next_page_token)
    assert ([one.route for one in second.items], second.next_page_token) == (["c"], None)
    bench.rollouts.abort("local", "b", **TOLD)
    assert [one.route for one in bench.rollouts.list("local", status="aborted").items] == ["b"]
    with pytest.raises(InvalidRequest):
        bench.rollouts.list("local", page_token="A")
    with pytest.raises(InvalidRequest):
        bench.rollouts.history("local", "a", page_size=5, page_token="x.y")


def test_only_rollouts_that_the_log_spoke_of_are_read_again(bench: Bench) -> None:
    parts = PARTS
    bench.start(STEPWISE)
    before = read_snapshot(bench.desk.database, parts=parts)
    bench.desk.push(9, "elsewhere")
    after = read_snapshot(bench.desk.database, before, parts)
    assert after is not before and after.part(LiveRollouts) is before.part(LiveRollouts)
    bench.look()
    now = read_snapshot(bench.desk.database, after, parts).part(LiveRollouts)
    assert now == bench.snapshot().part(LiveRollouts) and now is not before.part(LiveRollouts)
    bench.rollouts.abort("local", "support", **TOLD)
    assert read_snapshot(bench.desk.database, after, parts).part(LiveRollouts).by_route == {}


def test_an_explicit_reference_is_what_it_says_whatever_is_rolled_out(bench: Bench) -> None:
    bench.start(canary(weight(100), hold()))
    bench.look()
    found = bench.snapshot()
    live = found.part(LiveRollouts)
    for asked in (
        Asked(adapter_id="support"),
        Asked(header="support"),
        Asked("support:1.0.0"),
        Asked("support@production"),
    ):
        assert choose(asked, tenant="local", base="tiny", versions=found, rollouts=live).model == "support:1.0.0"
    rolled = bench.decide("ann")
    assert (rolled.model, rolled.arm, rolled.reason, rolled.rollout, rolled.route) == (
        "support:2.0.0",
        "candidate",
        "model:rollout:candidate",
        "support/1",
        "support",
    )


def test_a_user_keeps_the_arm_on_every_server_and_after_a_restart(bench: Bench) -> None:
    bench.start(canary(weight(10), hold(), weight(20), hold()))
    bench.look()
    one, other = bench.snapshot(), bench.snapshot()
    keys = [f"user-{number}" for number in range(2000)]
    arms = [bench.decide(key, one).arm for key in keys]
    assert arms == [bench.decide(key, other).arm for key in keys]
    assert abs(arms.count("candidate") / len(keys) - 0.1) < 0.03
    bench.rollouts.resume("local", "support", **TOLD)
    bench.look()
    more = bench.snapshot()
    grown = [bench.decide(key, more).arm for key in keys]
    assert abs(grown.count("candidate") / len(keys) - 0.2) < 0.03
    moved = {(was, now) for was, now in zip(arms, grown, strict=True) if was != now}
    assert moved == {("stable", "candidate")}

"""The controller: what it judges, what it waits for, and that one server of several acts, whoever is killed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from typing import Any

import pytest
from sqlalchemy import select, update

from graftwork.access.events import verify_chain
from graftwork.db.lease import Lease
from graftwork.db.schema import leases
from graftwork.errors import Unavailable
from graftwork.traffic.rollouts.live import LiveRollouts
from graftwork.traffic.rollouts.rollout import Rollout
from support.rollouts import Bench, canary, hold, spec, weight
from support.scale import times
from support.waiting import eventually

GATED = canary(weight(50), {"analysis": {"name": "errors"}}, hold(), analysis={"name": "latency"})


def test_a_bad_canary_is_taken_back_by_its_gate_and_the_reason_is_kept(bench: Bench) -> None:
    bench.start(GATED)
    bench.look()
    bench.judge.says["candidate"] = "fail"
    after = bench.look(1)
    assert (after.state.status, after.state.reason) == ("aborted", "candidate failed latency: candidate as told")
    assert set(bench.arms()) == {"support:1.0.0"}


def test_a_gate_without_a_verdict_never_promotes(bench: Bench) -> None:
    bench.start(canary(weight(50), {"analysis": {"name": "errors"}}))
    for _ in range(5):
        after = bench.look(1e6)
    assert (after.state.status, after.state.step, after.state.share("candidate")) == ("progressing", 1, 0.5)


def test_each_arm_is_judged_from_when_its_step_began_and_the_other_gate_from_the_first_weight(bench: Bench) -> None:
    bench.start(canary(weight(5), hold("10m"), {"analysis": {"name": "errors"}}, analysis={"name": "latency"}))
    began = bench.clock.now
    bench.look()
    bench.look(700)
    entered = bench.clock.now
    bench.look(50)
    assert bench.judge.asked[-2:] == [("candidate", "latency", began), ("candidate", "errors", entered)]


def test_what_a_gate_beside_the_steps_has_not_passed_is_not_promoted_at_their_end(bench: Bench) -> None:
    bench.start(canary(weight(50), hold("10m"), analysis={"name": "latency", "deadline": "1h"}))
    began = bench.clock.now
    bench.look()
    after = bench.look(600)
    assert (after.state.status, after.state.step) == ("progressing", 2)
    after = bench.look(3600)
    assert (after.state.status, after.state.held, bench.judge.asked[-1][2]) == ("paused", "undecided", began)
    bench.rollouts.resume("local", "support", actor="ann", reason="I have looked")
    assert bench.look().state.status == "promoted"

    bench.start(canary(weight(50), analysis={"name": "latency"}), "support:3.0.0")
    bench.judge.says["candidate"] = "pass"
    bench.look()
    assert bench.look().state.status == "promoted"


def test_a_look_that_has_nothing_to_do_writes_nothing(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.start(canary(weight(50), hold("10m")))
    bench.look()
    monkeypatch.setattr(bench.desk.database, "transaction", lambda: pytest.fail("it was written"))
    assert bench.look(599).state.step == 1


def test_it_waits_for_candidates_to_be_warm_and_gives_up_on_one_that_cannot_be(bench: Bench) -> None:
    bench.warmth.warm = False
    bench.start(canary(weight(50), hold()))
    assert bench.look(100).state.status == "warming"
    bench.warmth.wrong = "support:2.0.0 cannot be loaded: damaged"
    after = bench.look()
    assert (after.state.status, after.state.reason) == ("aborted", bench.warmth.wrong)


def test_what_a_candidate_waits_for_is_told_while_it_waits_and_is_no_change(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.warmth.warm, bench.warmth.lacks = False, "support:2.0.0 cannot be loaded yet: no room"
    bench.start(canary(weight(50), hold()))
    told = bench.look()
    assert (told.to_json()["waits_for"], told.changes, bench.kinds()) == (bench.warmth.lacks, 1, ["rollout.started"])
    with monkeypatch.context() as patch:
        patch.setattr(bench.desk.database, "transaction", lambda: pytest.fail("it was written again"))
        bench.look(1)
    bench.warmth.warm = True
    assert (bench.look().state.held, bench.look().to_json()["waits_for"]) == ("step", None)


def test_while_nothing_is_rolled_out_nothing_is_asked_of_the_database(bench: Bench) -> None:
    with bench.desk.database.reading() as tx:
        before = tx.exec_driver_sql("SELECT count(*) FROM leases").scalar()
    assert (bench.controller.look(), before) == (0, 0)
    with bench.desk.database.reading() as tx:
        assert tx.exec_driver_sql("SELECT count(*) FROM leases").scalar() == 0


def start_two(bench: Bench) -> None:
    """One on alpha, and one on zeta, which is looked at after it."""
    for number, name in enumerate(("alpha", "zeta"), 10):
        for minor in (0, 1):
            bench.desk.push(10 * number + minor, name, semver=f"1.{minor}.0")
        bench.desk.promote(f"{name}:1.0.0")
    for name in ("alpha", "zeta"):
        plan = spec(name, canary(weight(50), hold()), f"{name}:1.1.0")
        bench.rollouts.start("local", plan, actor="ann", reason=None, once=None)


@pytest.mark.parametrize("error", [Unavailable("Not now."), ValueError("a mistake of ours")])
def test_one_that_cannot_go_on_does_not_hold_up_the_others(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    start_two(bench)
    advance = bench.rollouts.advance

    def failing(seen: Rollout, *told: Any) -> Rollout | None:
        if seen.route == "alpha":
            raise error
        return advance(seen, *told)

    monkeypatch.setattr(bench.rollouts, "advance", failing)
    assert bench.controller.look() == 1
    assert bench.rollouts.get("local", "zeta").state.share("candidate") == 0.5


def test_a_look_that_lasts_longer_than_the_lease_still_comes_to_the_last(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_two(bench)
    other, advance = Lease(bench.desk.database, "rollouts", "other", 60.0), bench.rollouts.advance

    def slow(*told: Any) -> Rollout | None:
        with bench.desk.database.transaction() as tx:  # as if judging it took 40 of 60 seconds
            tx.execute(update(leases).values(expires_s=leases.c.expires_s - 40.0))
        assert other.hold() is None
        return advance(*told)

    monkeypatch.setattr(bench.rollouts, "advance", slow)
    assert bench.controller.look() == 2


def test_only_who_holds_the_lease_acts_and_another_goes_on_when_it_is_let_go(bench: Bench) -> None:
    bench.start(canary(weight(10), hold("10s"), weight(20), hold()))
    other = bench.controller_of("other")
    assert (bench.controller.look(), other.look()) == (1, 0)
    bench.clock.pass_by(10)
    assert other.look() == 0
    bench.controller.close()
    assert (other.look(), bench.controller.look()) == (1, 0)
    assert bench.rollouts.get("local", "support").state.share("candidate") == 0.2


def test_who_lost_the_lease_in_the_middle_writes_nothing(bench: Bench) -> None:
    begun = bench.start(canary(weight(10), hold()))
    mine, others = (Lease(bench.desk.database, "rollouts", holder, 60.0) for holder in ("one", "other"))
    held = mine.hold()
    assert held is not None
    mine.release()
    assert others.hold() is not None
    now = bench.clock.now
    evidence = bench.controller.evidence(begun, now)
    assert bench.rollouts.advance(begun, evidence, held, now) is None
    others.release()
    again = mine.hold()
    assert again is not None and again.epoch == held.epoch + 2
    assert bench.rollouts.advance(begun, evidence, held, now) is None, "the right of before is another one"
    assert bench.rollouts.advance(begun, evidence, again, now) is not None
    assert bench.rollouts.advance(begun, evidence, again, now) is None, "what was decided on is no longer so"


def test_a_lease_runs_out_by_the_databases_clock(bench: Bench) -> None:
    first, second = (Lease(bench.desk.database, "anything", holder, 0.2) for holder in ("one", "other"))
    held = first.hold()
    assert held is not None and first.hold() == held and second.hold() is None
    eventually(lambda: second.hold() is not None)
    assert first.hold() is None


def test_of_many_who_want_it_at_once_one_has_it(bench: Bench) -> None:
    found, wait = [], threading.Barrier(8)

    def want(number: int) -> None:
        lease = Lease(bench.desk.database, "anything", str(number), 60.0)
        wait.wait()
        found.append(lease.hold())

    threads = [threading.Thread(target=want, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len([one for one in found if one is not None]) == 1


#: Begins servers of which there is nothing but the controller: each looks all the time, and is called as its process.
SERVERS = """
import os, signal, sys, time
import sqlalchemy.dialects.postgresql.psycopg, sqlalchemy.dialects.sqlite, psycopg  # before they begin, not in each
from graftwork.db import Database
from graftwork.db.time import DatabaseClock
from graftwork.registry.snapshot import SnapshotReader
from graftwork.traffic.rollouts.controller import Controller
from graftwork.db.lease import Lease
from graftwork.traffic.rollouts.live import LiveRollouts, read_live
from graftwork.traffic.rollouts.rollouts import Rollouts
from graftwork.traffic.routes.table import RouteTable, read_routes


class Warm:
    ready = staticmethod(lambda rollout: True)
    problem = staticmethod(lambda rollout: None)


def serve():
    database = Database(sys.argv[1])
    reader = SnapshotReader(database, {LiveRollouts: read_live, RouteTable: read_routes})
    lease = Lease(database, "rollouts", str(os.getpid()), 0.3)
    controller = Controller(Rollouts(database), lease, reader.current, Warm(), DatabaseClock(database))
    while True:
        controller.look()
        time.sleep(0.005)


children = []
for _ in range(int(sys.argv[2])):
    if not (child := os.fork()):
        serve()
    children.append(child)
print("ready", flush=True)
sys.stdin.read()
for child in children:
    os.kill(child, signal.SIGKILL)  # its number is not another's before it is waited for
    os.waitpid(child, 0)
"""


def test_servers_of_one_database_do_each_step_once_though_whoever_acts_is_killed(bench: Bench) -> None:
    steps = [step for number in range(1, 21) for step in (weight(number), hold("20ms"))]
    kills, draw = times(2, 20), random.Random(7)
    arguments = [sys.executable, "-W", "error", "-c", SERVERS, bench.desk.url, str(kills + 2)]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as servers:
        assert servers.stdout is not None and servers.stdout.readline() == "ready\n"
        bench.start(canary(*steps))
        killed = {0}
        for _ in range(kills):
            eventually(lambda: _acting(bench) not in killed)
            time.sleep(draw.uniform(0, 0.1))
            killed.add(_acting(bench))
            os.kill(_acting(bench), signal.SIGKILL)
        eventually(lambda: bench.rollouts.get("local", "support").state.ended)
    assert servers.returncode == 0
    told = [one["after"]["weights"] for one in _history(bench) if one["kind"] == "weight_set"]
    assert [one["candidate"] for one in told] == [float(number) for number in range(1, 21)]
    assert bench.kinds().count("rollout.promoted") == 1
    assert bench.desk.registry.resolve("local", "support@production").semver == "2.0.0"
    with bench.desk.database.reading() as tx:
        verify_chain(tx)
    assert bench.snapshot().part(LiveRollouts).by_route == {}


def _acting(bench: Bench) -> int:
    with bench.desk.database.reading() as tx:
        return int(tx.execute(select(leases.c.holder)).scalar() or 0)


def _history(bench: Bench) -> list[dict[str, Any]]:
    page = bench.rollouts.history("local", "support", page_size=500, page_token=None)
    return [dict(one) for one in reversed(page.items)]

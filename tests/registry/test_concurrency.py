"""Many threads and many processes on one database file."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from graftwork.access.events import verify_chain
from graftwork.errors import GraftworkError, PreconditionFailed
from graftwork.registry.pointers import ABSENT
from support.scale import times
from support.threads import THREADS, at_once

if TYPE_CHECKING:
    from support.desk import Desk

PROCESSES = 8
CHANGERS = times(4, 8)
PUSHES = times(4, 40)  # of each process

#: What a process does: open the database by itself, then push, set an alias and promote.
WORKER = """
import json, sys
from graftwork.artifacts.bundle import BundleFile, Manifest
from graftwork.db import Database
from graftwork.errors import PreconditionFailed
from graftwork.registry.registry import Registry

url, number, pushes = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
seen = {"sequences": [], "semvers": [], "won": False}
with Database(url) as database:
    registry = Registry(database)
    print("ready", flush=True)
    sys.stdin.readline()
    for push in range(pushes):
        file = BundleFile("adapter_model.safetensors", 8, f"sha256:{number * 1000 + push:064x}")
        version, created = registry.push(
            "local", "tone", Manifest((file,)), kind="lora", base="tiny", base_digest="sha256:" + "b" * 64,
            rank=8, bytes=8, account={"ok": True}, actor=f"process-{number}",
        )
        assert created
        seen["sequences"].append(version.sequence)
        seen["semvers"].append(version.semver)
    try:
        registry.set_alias("local", "tone", "champion", version.label, expected="absent", actor=str(number))
        seen["won"] = True
    except PreconditionFailed:
        pass
    registry.promote("local", version.label, actor=f"process-{number}")
print(json.dumps(seen))
"""

#: Another: approve, reject, promote, roll back and set stages in an order of its own.
CHANGER = """
import random, sys
from graftwork.db import Database
from graftwork.errors import Conflict, Forbidden
from graftwork.registry.registry import Registry
from graftwork.registry.lifecycle import Lifecycle

url, number, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
draw, actor = random.Random(number), f"process-{number}"
with Database(url) as database:
    registry, lifecycle = Registry(database), Lifecycle(database)
    print("ready", flush=True)
    sys.stdin.readline()
    for step in range(steps):
        version = f"tone:1.0.{draw.randrange(3)}"
        changes = [
            lambda: lifecycle.decide("local", version, draw.choice(["approved"] * 4 + ["rejected"]), actor=actor),
            lambda: registry.promote("local", version, actor=actor),
            lambda: registry.rollback("local", "tone", actor=actor),
            lambda: lifecycle.set_stage("local", version, draw.choice(["staging", "production"]), actor=actor),
        ]
        try:
            changes[step % 4 if step < 8 else draw.randrange(4)]()
        except (Conflict, Forbidden):
            pass
"""


def test_threads_that_push_one_name_get_consecutive_numbers(desk: Desk) -> None:
    pushed = [version for version, _ in at_once(lambda number: desk.try_push(number))]
    assert sorted(version.sequence for version in pushed) == list(range(1, THREADS + 1))
    assert {version.semver for version in pushed} == {f"1.0.{patch}" for patch in range(THREADS)}
    with desk.database.reading() as tx:
        assert verify_chain(tx) == THREADS + 1


def test_threads_that_push_the_same_bytes_get_one_version(desk: Desk) -> None:
    pushed = at_once(lambda _: desk.try_push(7))
    assert len({version for version, _ in [(v.digest + v.semver, c) for v, c in pushed]}) == 1
    assert [created for _, created in pushed].count(True) == 1


def test_threads_that_move_one_alias_from_the_same_place_have_one_winner(desk: Desk) -> None:
    for content in range(4):
        desk.push(content)
    expected = desk.manifest(0).digest()
    desk.registry.set_alias("local", "tone", "champion", "tone:1.0.0", expected=ABSENT, actor="me")

    def move(number: int) -> Any:
        target = f"tone:1.0.{number % 3 + 1}"
        actor = f"thread-{number}"
        return desk.registry.set_alias("local", "tone", "champion", target, expected=expected, actor=actor)

    results = at_once(move)
    winners = [result for result in results if not isinstance(result, GraftworkError)]
    assert len(winners) == 1
    assert all(isinstance(result, PreconditionFailed) for result in results if result not in winners)
    assert desk.registry.show("local", "tone@champion").digest == winners[0].digest
    assert [event.kind for event in desk.registry.history("local", "tone")].count("alias.set") == 2


def test_concurrent_promotions_leave_exactly_one_in_production(desk: Desk) -> None:
    for content in range(8):
        desk.push(content)
    results = at_once(lambda number: desk.promote(f"tone:1.0.{number}"), 8)
    assert not [result for result in results if isinstance(result, GraftworkError)]
    stages = list(desk.stages().values())
    assert (stages.count("production"), stages.count("archived")) == (1, 7)
    history = desk.registry.history("local", "tone")
    promotions = [event for event in history if event.kind == "version.promoted"]
    assert len(promotions) == 8
    assert promotions[-1].payload["moves"][0]["to"]["digest"] == desk.registry.show("local", "tone").digest


def test_concurrent_promotions_and_rollbacks_keep_pointer_stage_and_log_together(desk: Desk) -> None:
    for content in range(4):
        desk.push(content)
    desk.promote("tone:1.0.0")
    desk.promote("tone:1.0.1")

    def change(number: int) -> Any:
        if number % 2:
            return desk.registry.rollback("local", "tone", actor="me")
        return desk.promote(f"tone:1.0.{number % 4}")

    at_once(change, 16)
    shown = desk.registry.show("local", "tone@production")
    assert [semver for semver, stage in desk.stages().items() if stage == "production"] == [shown.semver]
    with desk.database.reading() as tx:
        verify_chain(tx)


def test_processes_share_one_database_without_an_error(desk: Desk) -> None:
    with ExitStack() as stack:
        workers = [stack.enter_context(worker(desk, number)) for number in range(PROCESSES)]
        for process in workers:
            assert process.stdout is not None
            process.stdout.readline()  # all are ready before any starts
        outputs = [process.communicate("go\n", timeout=120) for process in workers]
        assert [process.returncode for process in workers] == [0] * PROCESSES, outputs
    seen = [json.loads(output) for output, _ in outputs]

    total = PROCESSES * PUSHES
    assert sorted(number for one in seen for number in one["sequences"]) == list(range(1, total + 1))
    assert {text for one in seen for text in one["semvers"]} == {f"1.0.{patch}" for patch in range(total)}
    assert [one["won"] for one in seen].count(True) == 1
    assert list(desk.stages().values()).count("production") == 1
    with desk.database.reading() as tx:
        assert verify_chain(tx) == 1 + total + 1 + PROCESSES


def test_processes_that_approve_promote_and_roll_back_leave_one_in_production(desk: Desk) -> None:
    for content in range(3):
        desk.push(content)
    desk.demand("production")
    with ExitStack() as stack:
        workers = [stack.enter_context(worker(desk, number, CHANGER, times(24, 200))) for number in range(CHANGERS)]
        for process in workers:
            assert process.stdout is not None
            process.stdout.readline()
        outputs = [process.communicate("go\n", timeout=120) for process in workers]
        assert [process.returncode for process in workers] == [0] * CHANGERS, outputs

    history = desk.registry.history("local", "tone")
    approvals: dict[int, dict[str, str]] = {}
    production: list[int] = []
    for event in history:
        verdict = event.kind.removeprefix("version.")
        if verdict in ("approved", "rejected"):
            approvals.setdefault(event.payload["sequence"], {})[event.actor] = verdict
        for change in event.payload.get("stages", ()):
            if change["to"] == "production":
                assert set(approvals.get(change["sequence"], {}).values()) == {"approved"}, "as the policy demands"
                assert not production or change["sequence"] != production[-1]
                production.append(change["sequence"])
    assert [one.sequence for one in desk.registry.list_versions("local", "tone") if one.stage == "production"] == [
        production[-1]
    ]
    assert desk.registry.show("local", "tone@production").sequence == production[-1]
    with desk.database.reading() as tx:
        verify_chain(tx)


def worker(desk: Desk, number: int, script: str = WORKER, steps: int = PUSHES) -> subprocess.Popen[str]:
    arguments = [sys.executable, "-W", "error", "-c", script, desk.url, str(number), str(steps)]
    return subprocess.Popen(arguments, stdin=-1, stdout=-1, stderr=-1, text=True)

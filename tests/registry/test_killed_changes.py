"""Promotions, rollbacks, stages, approvals and deletions by processes that are killed: as if nobody had been killed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from graftwork.access.events import read_events, verify_chain
from graftwork.registry.snapshot import SnapshotReader, read_snapshot
from support.scale import soak_seed, times
from support.waiting import eventually

if TYPE_CHECKING:
    from support.desk import Desk

REQUESTS = times(60, 1000)

#: Begins processes that do the requests from one number to the last, each of them under its own key and always the
#: same, and tell of each that was answered. By their clock it is always the same moment.
WORKER = """
import os, random, sys
import sqlalchemy.dialects.postgresql.psycopg, sqlalchemy.dialects.sqlite, psycopg  # before they begin, not in each
from datetime import UTC, datetime
from graftwork.artifacts.bundle import BundleFile, Manifest
from graftwork.db import Database
from graftwork.errors import Conflict, Forbidden, NotFound
from graftwork.registry.registry import Registry
from graftwork.registry.idempotency import Once
from graftwork.registry.lifecycle import Lifecycle
from graftwork.registry.retention.deletion import Deletions
from graftwork.registry.rules.policy import Policy

STAGES = ["staging", "production", "archived"]
POLICY = Policy(require={"production": ("approval",)})


def do(registry, lifecycle, deletions, number):
    draw, told = random.Random(number), {"actor": "me", "reason": str(number)}
    once = Once(f"request-{number}", f"sha256:{number:064x}")
    version = f"adapters:/tone/{draw.randrange(1, 4 + number // 10)}"

    def push():
        file = BundleFile("adapter_model.safetensors", 8, f"sha256:{number:064x}")
        registry.push(
            "local", "tone", Manifest((file,)), kind="lora", base="tiny", base_digest="sha256:" + "b" * 64,
            rank=8, bytes=8, account={"ok": True}, actor="me", once=once,
        )

    begin = [
        *[push] * 3,
        lambda: lifecycle.set_policy("local", POLICY, **told),
        lambda: lifecycle.decide("local", "tone:1.0.0", "approved", **told, once=once),
        lambda: registry.promote("local", "tone:1.0.0", **told, once=once),
    ]
    later = [
        push,
        *[lambda: lifecycle.decide("local", version, "approved", **told, once=once)] * 5,
        *[lambda: registry.promote("local", version, **told, once=once)] * 4,
        *[lambda: registry.rollback("local", "tone", **told, once=once)] * 4,
        *[lambda: lifecycle.set_stage("local", version, draw.choice(STAGES), **told)] * 3,
        *[lambda: deletions.delete("local", version, **told)] * 2,
    ]
    try:
        (begin[number] if number < len(begin) else draw.choice(later))()
    except (Conflict, Forbidden, NotFound):
        pass


def tell(what):
    os.write(1, f"{what}\\n".encode())  # whole or not at all


for line in sys.stdin:
    url, first, last = line.split()
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        tell("over")
        continue
    tell(os.getpid())
    clock = lambda: datetime(2026, 1, 31, tzinfo=UTC)
    with Database(url) as database:
        parts = [part(database, clock) for part in (Registry, Lifecycle, Deletions)]
        for number in range(int(first), int(last)):
            do(*parts, number)
            tell(number)
    os._exit(0)
"""


class Workers:
    """Processes of which there is one at a time."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None and process.stdout is not None
        self._stdin, self._stdout = process.stdin, process.stdout

    def work(self, url: str, first: int, kill_after: tuple[int, float] | None = None) -> int:
        """How many of all requests are answered, when the process has ended or was killed.

        Args:
            kill_after: it is killed so many seconds after so many answers.
        """
        print(url, first, REQUESTS, file=self._stdin, flush=True)
        pid, answered = int(self._stdout.readline()), first
        while (line := self._stdout.readline()) != "over\n":
            answered = int(line) + 1
            if kill_after is not None and answered - first == kill_after[0] and answered < REQUESTS:
                time.sleep(kill_after[1])
                with suppress(ProcessLookupError):  # it has done all that was left
                    os.kill(pid, signal.SIGKILL)
        assert answered > first, "it failed by itself"
        return answered


@contextmanager
def workers() -> Iterator[Workers]:
    arguments = [sys.executable, "-W", "error", "-c", WORKER]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield Workers(process)
    assert process.returncode == 0


def check(desk: Desk, reader: SnapshotReader) -> None:
    """Pointer and stage name the same one version, the log is whole, and whoever reads on sees what is there."""
    with desk.database.reading() as tx:
        verify_chain(tx)
    view = read_snapshot(desk.database).adapters["local", "tone"]
    assert view.production is not None
    assert [one.sequence for one in view.versions if one.stage == "production"] == [view.production.sequence]
    eventually(lambda: reader.current() == read_snapshot(desk.database))


def log(desk: Desk) -> list[str]:
    with desk.database.reading() as tx:
        return [f"{event.kind} {event.payload} {event.hash}" for event in read_events(tx, "local")]


def test_each_request_is_done_once_whoever_is_killed_and_the_log_is_that_of_a_quiet_run(
    make_desk: Callable[[], Desk],
) -> None:
    desk, quiet, draw = make_desk(), make_desk(), random.Random(soak_seed())
    reader, kills = SnapshotReader(desk.database), 0
    with workers() as running:
        answered = running.work(desk.url, 0, kill_after=(7, 0.0))
        while answered < REQUESTS:
            kills += 1
            check(desk, reader)
            # The last answer never arrived: that request is made again, as well as the one that may be half done.
            kill_after = draw.randrange(2, 5), draw.uniform(0, 0.006)
            answered = running.work(desk.url, answered - 1, kill_after)
        check(desk, reader)
        assert running.work(quiet.url, 0) == REQUESTS
    assert kills > REQUESTS // 10
    assert log(desk) == log(quiet)
    kinds = {event.kind for event in desk.registry.history("local", "tone")}
    assert kinds >= {"version.promoted", "version.rolled_back", "stage.set", "version.approved", "version.deleted"}

"""Snapshots: immutable, complete, and new as soon as anybody committed."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import threading
import time
import timeit
from typing import TYPE_CHECKING, Any

import pytest

from graftwork.access import events
from graftwork.access.clock import timestamp, utc_now
from graftwork.db import Database, Transaction
from graftwork.errors import NotFound, UnknownModel
from graftwork.registry import snapshot as snapshot_module
from graftwork.registry.reference import parse_reference
from graftwork.registry.registry import Registry
from graftwork.registry.snapshot import Changed, SnapshotReader, read_snapshot
from support.waiting import eventually

if TYPE_CHECKING:
    from support.desk import Desk


@pytest.fixture
def reader(desk: Desk) -> SnapshotReader:
    return SnapshotReader(desk.database)


def test_an_empty_database_is_an_empty_snapshot(reader: SnapshotReader) -> None:
    snapshot = reader.current()
    assert (snapshot.position, snapshot.names("local"), snapshot.adapters) == (0, (), {})


def test_while_nothing_changes_the_snapshot_is_the_same_object(desk: Desk, reader: SnapshotReader) -> None:
    desk.push(1)
    assert reader.current() is reader.current()


def test_a_commit_that_the_log_does_not_speak_of_changes_nothing(desk: Desk, reader: SnapshotReader) -> None:
    desk.push(1)
    before = reader.current()
    with desk.database.transaction() as tx:
        tx.exec_driver_sql("CREATE TABLE elsewhere (a integer)")
    assert reader.current() is before


def test_metadata_and_account_are_not_read_again_with_each_push(desk: Desk, reader: SnapshotReader) -> None:
    for content in (1, 2, 3):
        desk.push(content, metadata={"long": "x" * 1000}, account={"ok": True})
        for version in reader.current().adapters["local", "tone"].versions:
            assert (version.metadata, version.account) == (None, None)


def test_our_own_commit_is_seen_at_once(desk: Desk, reader: SnapshotReader) -> None:
    for content in (1, 2, 3):
        version = desk.push(content)
        assert reader.current().resolve("local", parse_reference("tone")) == version
    promoted = desk.promote("tone:1.0.0")
    assert reader.current().resolve("local", parse_reference("tone")) == promoted


def test_a_commit_of_another_process_is_seen_at_once(desk: Desk, reader: SnapshotReader, database_kind: str) -> None:
    desk.push(1)
    assert reader.current().names("local") == ("tone",)
    script = (
        "import sys\n"
        "from graftwork.db import Database\n"
        "from graftwork.registry.registry import Registry\n"
        "with Database(sys.argv[1]) as database:\n"
        "    Registry(database).promote('local', 'tone:1.0.0', actor='other')\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", script, desk.url], check=True)
    if database_kind == "postgresql":  # which tells of it, some milliseconds later
        eventually(lambda: "production" in reader.current().adapters["local", "tone"].aliases)
    (version,) = reader.current().adapters["local", "tone"].versions
    assert (version.stage, version.aliases) == ("production", ("production",))


def test_old_snapshots_stay_as_they_were(desk: Desk, reader: SnapshotReader) -> None:
    desk.push(1)
    before = reader.current()
    desk.push(2)
    desk.promote("tone:1.0.0")
    assert [version.stage for version in before.adapters["local", "tone"].versions] == ["development"]
    with pytest.raises(dataclasses.FrozenInstanceError):
        before.position = 9  # type: ignore[misc]


def test_every_form_of_reference_resolves(desk: Desk, reader: SnapshotReader) -> None:
    desk.push(1)
    desk.push(2)
    desk.promote("tone:1.0.0")
    digest = desk.manifest(1).digest()
    for reference in (
        *("tone", "local/tone", "tone:1.0.0", "tone:v1.0", "tone@production", "adapters:/tone/1"),
        *(f"tone@{digest}", f"tone@{digest[:19]}"),
    ):
        assert reader.current().resolve("local", parse_reference(reference)).semver == "1.0.0", reference
    assert reader.current().with_digest("local", digest).manifest == desk.manifest(1)


def test_a_bare_name_that_was_never_promoted_says_so_by_its_aliases(desk: Desk, reader: SnapshotReader) -> None:
    desk.push(1)
    assert "production" not in reader.current().resolve("local", parse_reference("tone")).aliases
    desk.promote("tone")
    assert "production" in reader.current().resolve("local", parse_reference("tone")).aliases


def test_what_is_unknown_and_what_is_another_tenants_look_alike(desk: Desk, reader: SnapshotReader) -> None:
    desk.push(1, "secret", tenant="acme")
    digest = desk.manifest(1).digest()
    messages = set()
    for reference in (
        "secret",
        "acme/secret",
        "secret:1.0.0",
        f"secret@{digest}",
        "nope",
        "acme/nope",
        "x/nope",
    ):
        with pytest.raises(UnknownModel) as caught:
            reader.current().resolve("local", parse_reference(reference))
        assert caught.value.reference == reference
        messages.add(caught.value.message.replace(reference, "REF"))
    assert len(messages) == 1
    assert reader.current().names("local") == ()
    with pytest.raises(NotFound):
        reader.current().with_digest("local", digest)
    assert reader.current().resolve("acme", parse_reference("secret")).digest == digest


def test_names_are_sorted_also_after_later_pushes(desk: Desk, reader: SnapshotReader) -> None:
    for content, name in enumerate(["m", "a", "z", "b"]):
        desk.push(content, name)
        reader.current()
    assert reader.current().names("local") == ("a", "b", "m", "z")
    assert [view.name for view in reader.current().by_tenant["local"]] == ["a", "b", "m", "z"]


def test_readers_in_many_threads_see_each_commit_that_came_before(
    desk: Desk, reader: SnapshotReader, database_kind: str
) -> None:
    desk.push(0)
    committed, failures, done = [1], [], threading.Event()

    def read() -> None:
        while not done.is_set():
            least = committed[0]
            if len(reader.current().adapters["local", "tone"].versions) < least:
                failures.append(least)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        with Database(desk.url) as other:
            for content in range(1, 20):
                # PostgreSQL's other connections are other processes: theirs are told of later.
                writer = Registry(other) if content % 2 and database_kind == "sqlite" else desk.registry
                writer.push(
                    "local",
                    "tone",
                    desk.manifest(content),
                    kind="lora",
                    base="tiny",
                    base_digest="sha256:" + "b" * 64,
                    rank=8,
                    bytes=8,
                    account={},
                    actor="me",
                )
                committed[0] += 1
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert failures == []


def test_a_commit_beside_the_very_first_read_is_not_missed(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.push(0)
    before, pusher = desk.database.data_version(), threading.Thread(target=desk.push, args=(1,))

    def read_and_then_commit(*given: Any) -> Any:
        found = read_snapshot(*given)
        monkeypatch.undo()
        pusher.start()
        while desk.database.data_version() == before:
            time.sleep(0.001)
        return found

    monkeypatch.setattr(snapshot_module, "read_snapshot", read_and_then_commit)
    reader = SnapshotReader(desk.database)
    reader.current()
    pusher.join()
    assert len(reader.current().adapters["local", "tone"].versions) == 2


def test_looking_for_changes_costs_microseconds(desk: Desk, reader: SnapshotReader) -> None:
    desk.push(1)
    reader.current()
    per_call_s = min(timeit.repeat(reader.current, number=1000, repeat=5)) / 1000
    assert per_call_s < 50e-6  # about 3 µs on an idle machine


class _Subjects(frozenset[str]):
    """A part that keeps what it was told of."""


def test_a_part_is_read_in_the_same_moment_and_kept_where_nothing_of_its_own_changed(desk: Desk) -> None:
    told: list[Any] = []

    def read(tx: Transaction, known: _Subjects | None, changed: Changed) -> _Subjects:
        told.append(changed)
        if known is not None and changed == {("local", "adapters/tone")}:
            return known
        return _Subjects(subject for _, subject in events.subjects_after(tx, 0))

    reader = SnapshotReader(desk.database, {_Subjects: read})
    empty = reader.current().part(_Subjects)
    assert not empty
    desk.push(1)
    assert reader.current().part(_Subjects) is empty
    with desk.database.transaction() as tx:
        events.append(tx, "local", "ada", "thing.made", "things/one", {}, at=timestamp(utc_now()))
    assert sorted(reader.current().part(_Subjects)) == ["adapters/tone", "things/one"]
    assert told == [None, {("local", "adapters/tone")}, {("local", "things/one")}]


def test_a_part_that_nobody_reads_is_a_mistake_in_our_code(reader: SnapshotReader) -> None:
    with pytest.raises(KeyError):
        reader.current().part(_Subjects)

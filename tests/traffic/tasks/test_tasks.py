"""Tasks in the database: revisions that never change, one pointer by name, events, and the part of a snapshot."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy.exc import IntegrityError

from graftwork.access.events import read_events
from graftwork.errors import InvalidRequest, NotFound, PreconditionFailed
from graftwork.protocol.tasks import TaskSpec
from graftwork.registry.pointers import ABSENT, PRESENT
from graftwork.registry.snapshot import SnapshotReader
from graftwork.traffic.tasks.live import LiveTasks, read_tasks
from graftwork.traffic.tasks.tasks import Task, Tasks
from support.desk import Desk

if TYPE_CHECKING:
    from support.databases import NewDatabase


class Board:
    """Tasks on a database of their own."""

    def __init__(self, desk: Desk) -> None:
        self.desk, self.tasks = desk, Tasks(desk.database, desk.clock)

    def set(self, name: str = "mood", adapter: str = "tone", tenant: str = "local", **more: Any) -> tuple[Task, bool]:
        known = {"if_match": None, "actor": "me", "reason": None, **more}
        return self.tasks.set(tenant, name, TaskSpec(adapter=adapter), **known)

    def events(self) -> list[tuple[str, str, Any, Any]]:
        with self.desk.database.reading() as tx:
            found = read_events(tx, "local")
        return [(one.kind, one.subject, one.payload["from"], one.payload["to"]) for one in found]


@pytest.fixture
def board(new_database: NewDatabase) -> Any:
    with new_database() as url:
        desk = Desk(url)
        yield Board(desk)
        desk.database.close()


def test_each_content_is_one_revision_and_the_name_goes_between_them(board: Board) -> None:
    one, created = board.set(adapter="a", reason="first")
    assert (one.label, created, one.revision.created_by) == ("mood/1", True, "me")
    two, created = board.set(adapter="b", reason="better")
    assert (two.label, created) == ("mood/2", False)
    assert board.set(adapter="b") == (two, False)  # nothing changes, and nothing is told
    back, _ = board.set(adapter="a")
    assert (back.label, back.revision) == ("mood/1", one.revision)
    assert [one.number for one in board.tasks.revisions("local", "mood").items] == [2, 1]
    digests = {"1": one.revision.digest, "2": two.revision.digest}
    briefs = {number: {"revision": int(number), "digest": digest} for number, digest in digests.items()}
    assert board.events() == [
        ("task.set", "tasks/mood", None, briefs["1"]),
        ("task.set", "tasks/mood", briefs["1"], briefs["2"]),
        ("task.set", "tasks/mood", briefs["2"], briefs["1"]),
    ]


def test_a_removed_name_means_nothing_and_counts_on(board: Board) -> None:
    board.set(adapter="a")
    board.tasks.remove("local", "mood", if_match=None, actor="me", reason="over")
    with pytest.raises(NotFound, match="The task 'mood' does not exist"):
        board.tasks.show("local", "mood")
    with pytest.raises(NotFound):
        board.tasks.remove("local", "mood", if_match=None, actor="me", reason=None)
    assert len(board.tasks.revisions("local", "mood").items) == 1
    assert board.set(adapter="b")[0].label == "mood/2"
    assert [one[0] for one in board.events()] == ["task.set", "task.removed", "task.set"]


def test_a_name_moves_by_compare_and_swap(board: Board) -> None:
    with pytest.raises(PreconditionFailed):
        board.set(if_match=PRESENT)
    one, _ = board.set(if_match=ABSENT)
    with pytest.raises(PreconditionFailed, match="is at revision 1"):
        board.set(adapter="b", if_match=ABSENT)
    with pytest.raises(PreconditionFailed):
        board.set(adapter="b", if_match="sha256:" + "0" * 64)
    two, _ = board.set(adapter="b", if_match=one.revision.digest)
    with pytest.raises(PreconditionFailed):
        board.tasks.remove("local", "mood", if_match=one.revision.digest, actor="me", reason=None)
    board.tasks.remove("local", "mood", if_match=two.revision.digest, actor="me", reason=None)


def test_lists_are_read_page_by_page(board: Board) -> None:
    for name in ("c", "a", "b"):
        board.set(name)
    first = board.tasks.list("local", page_size=2)
    assert ([task.name for task in first.items], first.next_page_token) == (["a", "b"], "b")
    last = board.tasks.list("local", page_size=2, page_token="b")
    assert ([task.name for task in last.items], last.next_page_token) == (["c"], None)
    for number in range(3):
        board.set("a", adapter=f"v{number}-x")
    page = board.tasks.revisions("local", "a", page_size=3)
    assert [one.number for one in page.items] == [4, 3, 2]
    assert [one.number for one in board.tasks.revisions("local", "a", page_token=page.next_page_token).items] == [1]
    for call in (
        board.tasks.list,
        lambda tenant, page_token: board.tasks.revisions(tenant, "a", page_token=page_token),
    ):
        with pytest.raises(InvalidRequest):
            call("local", page_token="/")


def test_a_tenant_has_its_own(board: Board) -> None:
    board.set(tenant="other")
    with pytest.raises(NotFound):
        board.tasks.show("local", "mood")
    assert board.tasks.list("local").items == ()


def test_the_order_of_a_schema_is_kept(board: Board) -> None:
    schema = {
        "type": "object",
        "properties": {"z": {"type": "string"}, "a": {"type": "string"}},
        "required": ["z", "a"],
    }
    given = json.dumps({"output": {"type": "json", "schema": schema}})
    board.tasks.set("local", "x", TaskSpec.read(given.encode()), if_match=None, actor="me", reason=None)
    spec = board.tasks.show("local", "x").revision.spec
    assert spec.output.schema_ is not None
    assert list(spec.output.schema_["properties"]) == ["z", "a"]


def test_nobody_changes_a_revision(board: Board) -> None:
    board.set()
    for change in ("UPDATE task_revisions SET spec = '{}'", "DELETE FROM task_revisions"):
        with pytest.raises(IntegrityError, match="append-only"), board.desk.database.transaction() as tx:
            tx.exec_driver_sql(change)


def test_a_snapshot_reads_again_only_the_tasks_that_changed(board: Board) -> None:
    board.set("a")
    board.set("b")
    reader = SnapshotReader(board.desk.database, {LiveTasks: read_tasks})
    before = reader.current().part(LiveTasks)
    board.desk.push(1)
    assert reader.current().part(LiveTasks) is before
    board.set("b", adapter="other")
    board.set("c")
    board.tasks.remove("local", "a", if_match=None, actor="me", reason=None)
    after = reader.current().part(LiveTasks)
    assert {name: task.label for (_, name), task in after.by_name.items()} == {"b": "b/2", "c": "c/1"}
    assert after == SnapshotReader(board.desk.database, {LiveTasks: read_tasks}).current().part(LiveTasks)
    assert after.find("local", "b").revision.spec.adapter == "other"
    for tenant, name in (("other", "b"), ("local", "a"), ("local", "../x")):
        with pytest.raises(NotFound, match=f"The task '{name}' does not exist"):
            after.find(tenant, name)

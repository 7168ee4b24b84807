"""Tasks in the database: what they have beside other resources."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from graftwork.errors import Held, InvalidRequest, NotFound
from graftwork.protocol.tasks import TaskSpec
from graftwork.registry.retention.deletion import Deletions
from graftwork.registry.snapshot import SnapshotReader
from graftwork.traffic.tasks.live import LiveTasks, read_tasks
from graftwork.traffic.tasks.tasks import Tasks, read_task_holders
from support.databases import NewDatabase
from support.desk import Desk


@pytest.fixture
def desk(new_database: NewDatabase) -> Iterator[Desk]:
    with new_database() as url:
        made = Desk(url)
        yield made
        made.database.close()


def test_the_order_of_a_schema_is_kept(desk: Desk) -> None:
    schema = {
        "type": "object",
        "properties": {"z": {"type": "string"}, "a": {"type": "string"}},
        "required": ["z", "a"],
    }
    given = json.dumps({"output": {"type": "json", "schema": schema}})
    tasks = Tasks(desk.database, desk.clock)
    tasks.set("local", "x", TaskSpec.read(given.encode()), actor="me")
    spec = tasks.show("local", "x").spec
    assert spec.output.schema_ is not None
    assert list(spec.output.schema_["properties"]) == ["z", "a"]


def test_a_spec_that_cannot_work_is_no_revision(desk: Desk) -> None:
    tasks = Tasks(desk.database, desk.clock)
    with pytest.raises(InvalidRequest, match=r"spec\.adapter is no reference"):
        tasks.set("local", "x", TaskSpec(adapter="../x"), actor="me")
    with pytest.raises(NotFound):
        tasks.revisions("local", "x")


def test_requests_find_theirs_in_the_snapshot_and_what_is_not_there_is_one_and_the_same(desk: Desk) -> None:
    Tasks(desk.database, desk.clock).set("local", "b", TaskSpec(adapter="other"), actor="me")
    live = SnapshotReader(desk.database, {LiveTasks: read_tasks}).current().part(LiveTasks)
    assert live.get("local", "b").spec.adapter == "other"
    for tenant, name in (("other", "b"), ("local", "a"), ("local", "../x")):
        with pytest.raises(NotFound, match=f"The task '{name}' does not exist"):
            live.get(tenant, name)


def test_a_version_that_answers_a_task_is_not_deleted(desk: Desk) -> None:
    for content in (1, 2):
        desk.push(content)
    tasks = Tasks(desk.database, desk.clock)
    tasks.set("local", "mood", TaskSpec(adapter="tone:1.0.0"), actor="me")
    tasks.set("local", "plain", TaskSpec(), actor="me")
    deletions = Deletions(desk.database, desk.clock, [read_task_holders])
    with pytest.raises(Held) as held:
        deletions.delete("local", "tone:1.0.0", actor="me")
    assert [(one["kind"], one["name"]) for one in held.value.holders] == [("task", "mood")]
    tasks.remove("local", "mood", actor="me")
    assert deletions.delete("local", "tone:1.0.0", actor="me").semver == "1.0.0"

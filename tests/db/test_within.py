"""Services in one open transaction change everything or nothing, and others see it when it is over."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from graftwork.db import Database
from graftwork.db.within import within
from graftwork.errors import NotFound
from graftwork.protocol.tasks import TaskSpec
from graftwork.traffic.tasks.tasks import Tasks


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with Database(f"sqlite:///{tmp_path / 'within.db'}") as database:
        yield database


def test_all_is_there_when_it_ends_and_seen_within_before(database: Database) -> None:
    tasks = Tasks(database)
    with database.transaction() as tx:
        inside = within(tasks, tx)
        inside.set("local", "a", TaskSpec(), actor="me")
        inside.set("local", "b", TaskSpec(), actor="me")
        assert [one.name for one in inside.list("local").items] == ["a", "b"]
        assert tasks.list("local").items == ()
    assert [one.name for one in tasks.list("local").items] == ["a", "b"]


def test_nothing_is_there_when_it_fails(database: Database) -> None:
    tasks = Tasks(database)
    with pytest.raises(NotFound), database.transaction() as tx:
        within(tasks, tx).set("local", "a", TaskSpec(), actor="me")
        within(tasks, tx).remove("local", "b", actor="me")
    assert tasks.list("local").items == ()


def test_only_what_keeps_its_database_under_the_usual_name_can_take_part(database: Database) -> None:
    with pytest.raises(AssertionError), database.transaction() as tx:
        within(object(), tx)

"""The event log by pages: filtered, verified, exported; what other tenants did is never told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text

from graftwork.access import event_log
from graftwork.access.chain import GENESIS
from graftwork.access.event_file import line_of, verify_file
from graftwork.access.event_log import EventLog, Head, Wanted
from graftwork.access.events import append
from graftwork.access.request_id import request_scope
from graftwork.db import Database
from graftwork.errors import Unavailable

AT = "2026-01-31T09:30:0{}.000000Z"


@pytest.fixture
def database(database_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    """Seven events, the fourth of another tenant; pages of three."""
    monkeypatch.setattr(event_log, "PAGE", 3)
    with Database(database_url) as database:
        for number in range(7):
            tenant, kind = "other" if number == 3 else "local", "thing.made" if number % 2 else "thing.moved"
            with database.transaction() as tx:
                append(tx, tenant, f"actor{number}", kind, f"things/{number % 2}", {"n": 0.1}, at=AT.format(number))
        yield database


@pytest.fixture
def log(database: Database) -> EventLog:
    return EventLog(database)


def break_at(database: Database, position: int) -> None:
    with database.transaction() as tx:
        if tx.dialect.name == "postgresql":
            tx.execute(text("ALTER TABLE events DISABLE TRIGGER events_append_only"))
        else:
            tx.execute(text("DROP TRIGGER events_no_update"))
        tx.execute(text("UPDATE events SET actor = 'you' WHERE position = :position"), {"position": position})


@pytest.mark.parametrize(
    ("wanted", "positions"),
    [
        (Wanted(), [1, 2, 3, 5, 6, 7]),
        (Wanted(after=5), [6, 7]),
        (Wanted(kind="thing.made"), [2, 6]),
        (Wanted(subject="things/0", actor="actor4"), [5]),
        (Wanted(since=AT.format(1), until=AT.format(5)), [2, 3, 5]),
    ],
)
def test_a_tenant_finds_its_own_events_only(log: EventLog, wanted: Wanted, positions: list[int]) -> None:
    assert [event.position for event in log.page("local", wanted, 100)] == positions
    assert [event.position for event in log.page("local", wanted, 2)] == positions[:2]


def test_a_page_is_read_in_order_and_not_sorted(database: Database) -> None:
    with database.reading() as tx:
        if tx.dialect.name == "postgresql":
            return  # it chooses by statistics, which seven rows do not make
        plan = tx.execute(
            text(
                "EXPLAIN QUERY PLAN SELECT * FROM events WHERE tenant = 'a' AND position > 3 ORDER BY position LIMIT 2"
            )
        ).all()
    assert "ix_events_tenant_position" in str(plan) and "TEMP B-TREE" not in str(plan)


def test_verifying_tells_the_head_and_counts_everybodys_events(log: EventLog) -> None:
    found = log.verify()
    assert Head(found.events, found.head) == log.head()
    assert (found.events, found.problem) == (7, None)
    noted = log.page("local", Wanted(), 1)[0].hash
    assert log.verify(expected_head=noted) == found


def test_an_empty_log_holds(database_url: str) -> None:
    with Database(database_url) as database:
        assert EventLog(database).verify().to_json() == {
            "ok": True,
            "events": 0,
            "head": GENESIS,
            "withheld": 0,
            "problem": None,
        }


def test_verifying_tells_where_the_chain_broke(log: EventLog, database: Database) -> None:
    break_at(database, 5)
    found = log.verify()
    assert found.events == 4 and found.problem is not None and "position 5" in found.problem
    assert found.head == log.links("other", 3, 1)[0]["hash"]


def test_verifying_notices_that_a_noted_event_is_gone(log: EventLog) -> None:
    found = log.verify(expected_head="sha256:" + "a" * 64)
    assert found.events == 7 and found.problem is not None and "cut off" in found.problem


def test_one_walk_at_a_time(log: EventLog) -> None:
    with log._walking, pytest.raises(Unavailable, match="already"):
        log.verify()
    assert log.verify().problem is None


@pytest.fixture
def exported(log: EventLog, tmp_path: Path) -> Path:
    path = tmp_path / "log.jsonl"
    path.write_text("".join(map(line_of, log.links("local", 0, 100))))
    return path


def test_an_export_is_checked_on_its_own_and_tells_nothing_of_others(log: EventLog, exported: Path) -> None:
    found = verify_file(exported, expected_head=log.head().head)
    assert (found.events, found.head, found.withheld, found.problem) == (7, log.head().head, 1, None)
    lines = [json.loads(line) for line in exported.read_text().splitlines()]
    assert lines[3].keys() == {"position", "previous", "hash"}
    assert "other" not in exported.read_text() and "actor3" not in exported.read_text()


@pytest.mark.parametrize(
    ("old", "new", "where"),
    [
        ("actor4", "actor5", "position 5"),
        ('"n":0.1', '"n":0.2', "position 1"),
        ('"position":4', '"position":9', "position 4"),
        ('"tenant":"local"', '"tenants":"local"', "Line 1"),
        ('{"actor":"actor6"', '["actor":"actor6"', "Line 7"),
    ],
)
def test_a_changed_export_is_noticed(exported: Path, old: str, new: str, where: str) -> None:
    text = exported.read_text()
    assert old in text
    exported.write_text(text.replace(old, new, 1))
    problem = verify_file(exported).problem
    assert problem is not None and where in problem


def test_an_export_that_was_cut_is_noticed(exported: Path, log: EventLog) -> None:
    whole = exported.read_bytes()
    exported.write_bytes(whole[:-9])
    problem = verify_file(exported).problem
    assert problem is not None and "Line 7" in problem
    exported.write_bytes(whole[: whole[:-1].rindex(b"\n") + 1])
    assert verify_file(exported).problem is None  # nobody can tell, but for who noted the head
    problem = verify_file(exported, expected_head=log.head().head).problem
    assert problem is not None and "cut off" in problem


def test_the_request_is_part_of_what_is_hashed(database: Database, log: EventLog) -> None:
    with request_scope("abc"), database.transaction() as tx:
        event = append(tx, "local", "me", "thing.made", "things/1", {"n": 1}, at=AT.format(9))
    assert event.payload == {"n": 1, "request_id": "abc"}
    assert log.page("local", Wanted(after=7), 1) == [event]
    assert log.verify().problem is None

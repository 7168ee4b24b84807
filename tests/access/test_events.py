"""The event log: append-only, and any change to it is noticed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from graftwork.access.chain import GENESIS, hash_of
from graftwork.access.events import append, head, read_events, subjects_after, verify_chain
from graftwork.db import Database
from graftwork.errors import Damaged, InvalidRequest

AT = "2026-01-31T09:30:00.000000Z"


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    with Database(database_url) as database:
        yield database


@pytest.fixture
def filled(database: Database) -> Database:
    for number in range(5):
        with database.transaction() as tx:
            append(tx, "local", "me", "thing.made", f"things/{number % 2}", {"number": number}, at=AT)
    return database


def tamper(database: Database, statement: str) -> None:
    """Change the log as somebody may who owns the database."""
    with database.transaction() as tx:
        if tx.dialect.name == "postgresql":
            tx.exec_driver_sql("ALTER TABLE events DISABLE TRIGGER events_append_only")
        else:
            tx.exec_driver_sql("DROP TRIGGER events_no_update")
            tx.exec_driver_sql("DROP TRIGGER events_no_delete")
        tx.exec_driver_sql(statement)


def test_events_follow_one_another_from_one(filled: Database) -> None:
    with filled.reading() as tx:
        found = read_events(tx, "local")
        assert verify_chain(tx) == head(tx) == 5
    assert [event.position for event in found] == [1, 2, 3, 4, 5]
    assert [event.previous for event in found] == [GENESIS, *(event.hash for event in found[:-1])]
    assert found[3].payload == {"number": 3}
    assert found[3].to_json()["kind"] == "thing.made"


def test_events_are_read_by_tenant_and_subject(filled: Database) -> None:
    with filled.transaction() as tx:
        append(tx, "other", "me", "thing.made", "things/0", {}, at=AT)
    with filled.reading() as tx:
        assert [event.position for event in read_events(tx, "local", "things/0")] == [1, 3, 5]
        assert [event.position for event in read_events(tx, "local", after=3)] == [4, 5]
        assert subjects_after(tx, 4) == {("local", "things/0"), ("other", "things/0")}


def test_an_event_is_part_of_its_transaction(filled: Database) -> None:
    with pytest.raises(ZeroDivisionError), filled.transaction() as tx:
        append(tx, "local", "me", "thing.made", "things/1", {}, at=AT)
        _ = 1 / 0
    with filled.reading() as tx:
        assert head(tx) == 5


@pytest.mark.parametrize("statement", ["UPDATE events SET actor = 'you'", "DELETE FROM events WHERE position = 5"])
def test_the_database_refuses_to_change_the_log(filled: Database, statement: str) -> None:
    with pytest.raises(IntegrityError, match="append-only"), filled.transaction() as tx:
        tx.execute(text(statement))


@pytest.mark.parametrize("column", ["tenant", "at", "actor", "kind", "subject", "payload"])
def test_a_changed_event_is_noticed(filled: Database, column: str) -> None:
    tamper(filled, f"UPDATE events SET {column} = '{{}}' WHERE position = 3")
    with filled.reading() as tx, pytest.raises(Damaged, match="position 3"):
        verify_chain(tx)


def test_a_removed_event_is_noticed(filled: Database) -> None:
    tamper(filled, "DELETE FROM events WHERE position = 2")
    with filled.reading() as tx, pytest.raises(Damaged, match="position 2"):
        verify_chain(tx)


def test_a_log_cut_short_is_noticed_by_whoever_noted_its_end(filled: Database) -> None:
    with filled.reading() as tx:
        noted = read_events(tx, "local")[-1].hash
        assert verify_chain(tx, expected_head=noted) == 5
    tamper(filled, "DELETE FROM events WHERE position = 5")
    with filled.reading() as tx:
        assert verify_chain(tx) == 4
        with pytest.raises(Damaged, match="cut off"):
            verify_chain(tx, expected_head=noted)


def test_an_event_rewritten_with_a_right_hash_breaks_the_next_link(filled: Database) -> None:
    with filled.reading() as tx:
        third = read_events(tx, "local")[2]
    body = {key: value for key, value in third.to_json().items() if key != "hash"} | {"payload": "{}"}
    tamper(filled, f"UPDATE events SET payload = '{{}}', hash = '{hash_of(body)}' WHERE position = 3")
    with filled.reading() as tx, pytest.raises(Damaged, match="position 4"):
        verify_chain(tx)


def test_the_chain_cannot_fork(filled: Database) -> None:
    columns = "tenant, at, actor, kind, subject, payload, previous"
    fork = f"INSERT INTO events SELECT 6, {columns}, 'x' FROM events LIMIT 1"
    with pytest.raises(IntegrityError), filled.transaction() as tx:
        tx.execute(text(fork))


def test_a_payload_that_is_not_json_is_refused(database: Database) -> None:
    with pytest.raises(InvalidRequest), database.transaction() as tx:
        append(tx, "local", "me", "thing.made", "things/1", {"x": float("nan")}, at=AT)

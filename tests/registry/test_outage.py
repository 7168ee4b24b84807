"""PostgreSQL goes away and comes back: requests are decided as before, changes are refused, nothing is missed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

import pytest

from graftwork.db import Database
from graftwork.db.listener import CHANNEL, Listener
from graftwork.errors import Unavailable
from graftwork.registry.registry import Registry
from graftwork.registry.snapshot import SnapshotReader
from support.databases import NewDatabase
from support.postgresql import PostgreSQLServer
from support.waiting import eventually

if TYPE_CHECKING:
    from support.desk import Desk


@pytest.fixture
def database_kind() -> str:
    return "postgresql"


def name_of(desk: Desk) -> str:
    return desk.url.split("@/")[1].split("?")[0]


def hang_up(server: PostgreSQLServer, name: str) -> None:
    server.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")


def test_while_it_is_away_the_last_snapshot_answers_and_changes_are_refused(
    desk: Desk, postgresql: PostgreSQLServer
) -> None:
    desk.push(1)
    reader, name = SnapshotReader(desk.database), name_of(desk)
    before = reader.current()
    postgresql.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
    hang_up(postgresql, name)
    assert reader.current() == before
    with pytest.raises(Unavailable):
        desk.promote("tone")
    assert reader.current() == before

    postgresql.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
    desk.promote("tone")
    assert "production" in reader.current().adapters["local", "tone"].aliases


def test_what_others_committed_while_nobody_listened_is_read_afterwards(
    desk: Desk, postgresql: PostgreSQLServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("graftwork.db.listener.RETRY_S", (0.2, 0.2))
    monkeypatch.setattr("graftwork.db.listener.HEARTBEAT_S", 600.0)
    desk.push(1)
    reader = SnapshotReader(desk.database)
    reader.current()
    with Database(desk.url) as other:
        hang_up(postgresql, name_of(desk))
        Registry(other).promote("local", "tone", actor="other")
        eventually(lambda: "production" in reader.current().adapters["local", "tone"].aliases)


def test_a_notification_that_is_lost_is_made_up_for(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graftwork.db.listener.HEARTBEAT_S", 0.05)
    desk.push(1)
    reader = SnapshotReader(desk.database)
    reader.current()
    with Database(desk.url) as other:
        with other.transaction() as tx:
            tx.exec_driver_sql("ALTER TABLE events DISABLE TRIGGER events_notify")
        Registry(other).promote("local", "tone", actor="other")
        eventually(lambda: "production" in reader.current().adapters["local", "tone"].aliases)


def test_a_transaction_whose_connection_breaks_is_unavailable_and_undone(
    desk: Desk, postgresql: PostgreSQLServer
) -> None:
    desk.push(1)
    with pytest.raises(Unavailable), desk.database.transaction() as tx:
        tx.exec_driver_sql("UPDATE versions SET stage = 'archived'")
        hang_up(postgresql, name_of(desk))
        tx.exec_driver_sql("SELECT 1")
    assert desk.stages() == {"1.0.0": "development"}


def test_a_writer_that_hangs_loses_its_turn(new_database: NewDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graftwork.db.postgresql.HANG_S", 0.2)
    with ExitStack() as stack:
        url = stack.enter_context(new_database())
        hanging, other = stack.enter_context(Database(url)), stack.enter_context(Database(url))
        stack.enter_context(pytest.raises(Unavailable))
        tx = stack.enter_context(hanging.transaction())
        with other.transaction():  # returns once the server has ended the first one's connection
            pass
        tx.exec_driver_sql("SELECT 1")


def test_a_listener_that_is_closed_calls_nobody(postgresql: PostgreSQLServer) -> None:
    import psycopg

    calls: list[int] = []

    def connect() -> psycopg.Connection[tuple[object, ...]]:
        return psycopg.connect(postgresql.url("postgres"), autocommit=True)

    changed: Callable[[], None] = lambda: calls.append(1)  # noqa: E731
    with closing(Listener(connect, changed, "here")):
        eventually(lambda: len(calls) == 1)
        postgresql.execute(f"NOTIFY {CHANNEL}")
        eventually(lambda: len(calls) == 2)
    postgresql.execute(f"NOTIFY {CHANNEL}")
    assert len(calls) == 2

"""The database file: opened once, short writing transactions, consistent reads."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import traceback
from pathlib import Path

import pytest
from sqlalchemy import select, text
from sqlalchemy.exc import DBAPIError

from graftwork.db import Database
from graftwork.db.schema import adapters
from graftwork.errors import InvalidRequest, Unavailable


@pytest.fixture
def url(empty_url: str) -> str:
    return empty_url


def test_opening_makes_the_file_and_its_folder(tmp_path: Path) -> None:
    with Database(f"sqlite:///{tmp_path / 'home' / 'graftwork.db'}"):
        assert (tmp_path / "home" / "graftwork.db").is_file()


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:", "nonsense:secret", "mysql://me:secret@x/y", ""])
def test_what_is_no_database_that_we_know_is_refused(url: str) -> None:
    with pytest.raises(InvalidRequest, match="sqlite:///path") as caught:
        Database(url)
    assert "secret" not in caught.value.message


@pytest.mark.parametrize(
    "url", ["postgresql://me:s3cr3t@127.0.0.1:1/x", "postgresql+psycopg://me:s3cr3t@127.0.0.1:1/x"]
)
def test_a_server_that_does_not_answer_is_named_without_the_password(url: str) -> None:
    with pytest.raises(Unavailable, match=r"postgresql://me:\*\*\*@127\.0\.0\.1:1/x") as caught:
        Database(url)
    assert "s3cr3t" not in "".join(traceback.format_exception(caught.value))


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    path = tmp_path / "graftwork.db"
    path.write_bytes(b"not a database at all" * 100)
    with pytest.raises(Unavailable, match=r"graftwork\.db"):
        Database(f"sqlite:///{path}")


def test_a_transaction_that_raises_leaves_nothing(url: str) -> None:
    with Database(url) as database:
        with pytest.raises(ZeroDivisionError), database.transaction() as tx:
            tx.execute(text("INSERT INTO adapters VALUES ('local', 'a', 0, 'now', 'me', '', '')"))
            _ = 1 / 0
        with database.reading() as tx:
            assert tx.execute(text("SELECT count(*) FROM adapters")).scalar() == 0


def test_what_a_statement_was_given_is_in_no_error(url: str) -> None:
    with Database(url) as database, pytest.raises(DBAPIError) as caught, database.transaction() as tx:
        for _ in range(2):
            tx.execute(text("INSERT INTO adapters VALUES ('local', 'a', 0, 'now', :me, '', '')"), {"me": "s3cr3t"})
    assert "s3cr3t" not in str(caught.value)


def test_a_reader_sees_one_moment_while_a_writer_commits(url: str) -> None:
    count = text("SELECT count(*) FROM adapters")
    with Database(url) as database, database.reading() as reader:
        assert reader.execute(count).scalar() == 0
        with database.transaction() as tx:
            tx.execute(text("INSERT INTO adapters VALUES ('local', 'a', 0, 'now', 'me', '', '')"))
        assert reader.execute(count).scalar() == 0


def test_a_writer_that_waits_too_long_is_told_that_the_database_is_busy(url: str) -> None:
    with (
        Database(url) as first,
        Database(url, busy_timeout_s=0.2) as second,
        first.transaction(),
        pytest.raises(Unavailable),
        second.transaction(),
    ):
        raise AssertionError("the second writer got in")


def test_a_second_thread_that_waits_too_long_is_told_so_too(url: str) -> None:
    with (
        Database(url, busy_timeout_s=0.02) as database,
        database.transaction(),
        pytest.raises(Unavailable, match="busy"),
        database.transaction(),
    ):
        raise AssertionError("the second writer got in")


def test_data_version_changes_with_every_commit_and_with_nothing_else(url: str, database_kind: str) -> None:
    with Database(url) as database:
        before = database.data_version()
        with database.reading() as tx:
            tx.execute(text("SELECT 1"))
        assert database.data_version() == before

        with database.transaction() as tx:
            tx.execute(text("INSERT INTO adapters VALUES ('local', 'a', 0, 'now', 'me', '', '')"))
        ours = database.data_version()
        assert ours != before

        if database_kind == "sqlite":  # PostgreSQL tells of it: see tests/registry/test_snapshot.py
            stranger = sqlite3.connect(url.removeprefix("sqlite:///"))
            stranger.execute("INSERT INTO adapters VALUES ('local', 'b', 0, 'now', 'me', '', '')")
            stranger.commit()
            stranger.close()
            assert database.data_version() != ours


def test_names_are_compared_byte_by_byte(url: str) -> None:
    names = ["a-b", "a.b", "a0", "a_b", "ab"]
    with Database(url) as database:
        with database.transaction() as tx:
            for name in reversed(names):
                statement = text("INSERT INTO adapters VALUES ('local', :name, 0, 'now', 'me', '', '')")
                tx.execute(statement, {"name": name})
        with database.reading() as tx:
            assert tx.execute(select(adapters.c.name).order_by(adapters.c.name)).scalars().all() == sorted(names)


def test_processes_that_create_the_database_at_once_all_get_it(url: str) -> None:
    script = f"from graftwork.db import Database; Database({url!r}).close()"
    running = [subprocess.Popen([sys.executable, "-W", "error", "-c", script]) for _ in range(4)]
    assert [process.wait(60) for process in running] == [0, 0, 0, 0]

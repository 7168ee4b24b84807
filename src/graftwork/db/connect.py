"""Database: one SQLite file, opened once per process; short writing transactions and consistent reads.

Writers take turns: threads of one process by a lock (first come, mostly first served), processes by SQLite's
own (`BEGIN IMMEDIATE` with a busy timeout). Readers never wait (write-ahead log).
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from sqlalchemy import Connection, create_engine, event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, OperationalError

from graftwork.db.migrate import migrate
from graftwork.db.pragmas import prepare_connection, use_write_ahead_log
from graftwork.errors import InvalidRequest, Unavailable

#: What a function that reads or writes rows is given; it lives until its `with` ends.
Transaction = Connection

BUSY_TIMEOUT_S = 60.0


class Database:
    """The database at a `sqlite:///path` URL, made and brought up to date when it is opened.

    Raises:
        InvalidRequest: the URL is not that of a SQLite file.
        Unavailable: the file cannot be opened, or was written by a newer Graftwork.
    """

    def __init__(self, url: str, *, busy_timeout_s: float = BUSY_TIMEOUT_S) -> None:
        self._path = _file_of(url)
        self._busy_timeout_s = busy_timeout_s
        self._turn = threading.Lock()
        self._watch_lock = threading.Lock()
        self._watch: sqlite3.Connection | None = None
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._engine = create_engine(f"sqlite:///{self._path}", pool_size=8, max_overflow=-1)
        event.listen(self._engine, "connect", self._on_connect)
        event.listen(self._engine, "begin", _on_begin)
        self._writer = self._engine.execution_options(begin="BEGIN IMMEDIATE")
        try:
            migrate(self._engine, self.transaction)
        except BaseException:
            self.close()
            raise

    def transaction(self) -> AbstractContextManager[Transaction]:
        """A writing transaction: committed when the block ends, rolled back when it raises. Keep it short.

        Raises:
            Unavailable: other writers held the database for longer than the busy timeout.
        """
        return self._transaction()

    @contextmanager
    def _transaction(self) -> Iterator[Transaction]:
        if not self._turn.acquire(timeout=self._busy_timeout_s):
            raise Unavailable(f"The database {self._path} is busy with other writers; try again.")
        try:
            with _foreign_errors(self._path), self._writer.begin() as connection:
                yield connection
        finally:
            self._turn.release()

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        """A reading transaction: all its queries see one moment; it never waits for writers."""
        with _foreign_errors(self._path), self._engine.begin() as connection:
            yield connection

    def data_version(self) -> int:
        """A number that changes when anyone, this process included, has committed since (~2 µs)."""
        with self._watch_lock:
            if self._watch is None:
                self._watch = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
                self._watch.execute(f"PRAGMA busy_timeout = {int(self._busy_timeout_s * 1000)}")
            (number,) = self._watch.execute("PRAGMA data_version").fetchone()
        return int(number)

    def close(self) -> None:
        with self._watch_lock:
            if self._watch is not None:
                self._watch.close()
                self._watch = None
        self._engine.dispose()

    def __enter__(self) -> Database:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _on_connect(self, connection: Any, _record: object) -> None:
        prepare_connection(connection, self._busy_timeout_s)
        use_write_ahead_log(connection, self._busy_timeout_s)


def _on_begin(connection: Connection) -> None:
    # The driver is in autocommit mode, so that this statement is the whole truth about when a lock is taken.
    connection.exec_driver_sql(str(connection.get_execution_options().get("begin", "BEGIN")))


def _file_of(url: str) -> Path:
    try:
        parsed = make_url(url)
    except ArgumentError as exc:
        raise InvalidRequest(f"The database URL {url!r} cannot be read; write sqlite:///path.", field="url") from exc
    if parsed.get_backend_name() != "sqlite" or not parsed.database or parsed.database == ":memory:":
        raise InvalidRequest(f"The database {url!r} is not a SQLite file; write sqlite:///path.", field="url")
    return Path(parsed.database).absolute()


@contextmanager
def _foreign_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OperationalError as exc:
        raise Unavailable(f"The database {path} cannot be used now: {exc.orig}.") from exc

"""SQLite: one file with a write-ahead log; writers take turns by `BEGIN IMMEDIATE` with a busy timeout."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, create_engine, event
from sqlalchemy.engine import URL

from graftwork.db.pragmas import prepare_connection, use_write_ahead_log
from graftwork.errors import InvalidRequest


class SQLite:
    """A `Backend`. The file and its folder are made where they are missing.

    Raises:
        InvalidRequest: the URL names no file.
    """

    def __init__(self, url: URL, busy_timeout_s: float) -> None:
        if not url.database or url.database == ":memory:":
            raise InvalidRequest(
                f"The database {str(url)!r} is not a SQLite file; write sqlite:///path.", field="database_url"
            )
        path = Path(url.database).absolute()
        path.parent.mkdir(parents=True, exist_ok=True)
        self.place = str(path)
        self._busy_timeout_s = busy_timeout_s
        self._watch_lock = threading.Lock()
        self._watch: sqlite3.Connection | None = None
        self.reader = create_engine(f"sqlite:///{path}", pool_size=8, max_overflow=-1, hide_parameters=True)
        event.listen(self.reader, "connect", self._on_connect)
        event.listen(self.reader, "begin", _on_begin)
        self.writer = self.reader.execution_options(begin="BEGIN IMMEDIATE")

    def wait_for_turn(self, connection: Connection) -> None:
        """BEGIN IMMEDIATE has waited already."""

    def committed(self) -> None:
        """`data_version` sees it by itself."""

    def data_version(self) -> int:
        # By a connection that never writes: to it, everybody's commits are those of others.
        with self._watch_lock:
            if self._watch is None:
                self._watch = sqlite3.connect(self.place, isolation_level=None, check_same_thread=False)
                self._watch.execute(f"PRAGMA busy_timeout = {int(self._busy_timeout_s * 1000)}")
            (number,) = self._watch.execute("PRAGMA data_version").fetchone()
        return int(number)

    def watch(self, changed: Callable[[], None]) -> bool:
        return False

    def close(self) -> None:
        with self._watch_lock:
            if self._watch is not None:
                self._watch.close()
                self._watch = None
        self.reader.dispose()

    def _on_connect(self, connection: Any, _record: object) -> None:
        prepare_connection(connection, self._busy_timeout_s)
        use_write_ahead_log(connection, self._busy_timeout_s)


def _on_begin(connection: Connection) -> None:
    # The driver is in autocommit mode, so that this statement is the whole truth about when a lock is taken.
    connection.exec_driver_sql(str(connection.get_execution_options().get("begin", "BEGIN")))

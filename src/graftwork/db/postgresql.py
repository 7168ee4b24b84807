"""PostgreSQL: a server that many machines share; writers take turns by one advisory lock.

The lock is asked for by the first statement of a writing transaction, and each statement after it sees all that
was committed before (read committed). So a writer reads what the one before it wrote, two never conflict, and
nothing has to be tried again; as with SQLite, but between machines. Whoever dies loses the lock with its
connection. See decision 0024.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from sqlalchemy import Connection, create_engine, event, text
from sqlalchemy.engine import URL

from graftwork.db.listener import Listener
from graftwork.errors import Unavailable

#: The advisory lock of whoever writes, per database: "graftwrk" as a number.
TURN: Final = int.from_bytes(b"graftwrk")
POOL_SIZE = 8
#: A client that does nothing for so long in the middle of a transaction is cut off by the server.
HANG_S = 60.0
#: How the two ends of a connection find out, in half a minute, that the other is gone.
KEEPALIVE: Final = {
    "connect_timeout": "5",
    "keepalives_idle": "15",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
    "application_name": "graftwork",
}


class PostgreSQL:
    """A `Backend`. A password comes from the URL, `PGPASSWORD`, a password file or a service file, as for libpq."""

    def __init__(self, url: URL, busy_timeout_s: float) -> None:
        url = url.set(drivername="postgresql+psycopg")
        self.place = url.set(drivername="postgresql", query={}).render_as_string()
        self._busy_timeout_ms = int(busy_timeout_s * 1000)
        self._version = 0
        self._listeners: list[Listener] = []
        self._engine = create_engine(
            url,
            pool_size=POOL_SIZE,
            max_overflow=POOL_SIZE,
            pool_timeout=busy_timeout_s,
            hide_parameters=True,  # what callers said is nothing for a log
            pool_pre_ping=True,  # after the server restarted, connections of before are no reason to fail
            connect_args={key: value for key, value in KEEPALIVE.items() if key not in url.query},
        )
        event.listen(self._engine, "connect", self._on_connect)
        self.writer = self._engine.execution_options(isolation_level="READ COMMITTED")
        self.reader = self._engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)

    def wait_for_turn(self, connection: Connection) -> None:
        connection.execute(text("SELECT pg_advisory_xact_lock(:turn)"), {"turn": TURN})

    def committed(self) -> None:
        self._version += 1  # in turn, for there is one writer at a time
        for listener in self._listeners:
            with suppress(Unavailable):  # then the listener reads, as soon as it can
                listener.changed()

    def data_version(self) -> int:
        return self._version

    def watch(self, changed: Callable[[], None]) -> bool:
        self._listeners.append(Listener(self._connect_alone, changed, self.place))
        return True

    def close(self) -> None:
        while self._listeners:
            self._listeners.pop().close()
        self._engine.dispose()

    def _connect_alone(self) -> Any:
        """A connection outside the pool, in autocommit mode."""
        pooled = self._engine.raw_connection()
        connection: Any = pooled.driver_connection
        pooled.detach()
        connection.autocommit = True
        return connection

    def _on_connect(self, connection: Any, _record: object) -> None:
        # A client that hangs between two statements of a writing transaction must not hold up all others.
        with connection.cursor() as cursor:
            cursor.execute(f"SET lock_timeout = {self._busy_timeout_ms}")
            cursor.execute(f"SET idle_in_transaction_session_timeout = {int(HANG_S * 1000)}")
            # Each of our queries reads a few rows by an index: to compile one costs more than it can win, and with
            # disks that seek in mind the planner would rather read whole tables.
            cursor.execute("SET jit = off")
            cursor.execute("SET random_page_cost = 1.1")
        connection.commit()

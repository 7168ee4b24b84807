"""Database: one database, opened once per process; short writing transactions and consistent reads.

Writers take turns, so that none ever meets a conflict that it would have to repeat: threads of one process by a
lock (first come, mostly first served), processes by the database's own (`backend.py`). Readers never wait.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from graftwork.db.backend import Backend, file_of, open_backend
from graftwork.db.migrate import has_schema, migrate
from graftwork.errors import Unavailable

#: What a function that reads or writes rows is given; it lives until its `with` ends.
Transaction = Connection

BUSY_TIMEOUT_S = 60.0
#: A server that became a standby: whoever took over is found by the next connection.
_READ_ONLY = "25006"
#: Program limits exceeded: what is too large for an index or a row is so the next time too.
_TOO_LARGE = "54"


class Database:
    """The database at a URL, `sqlite:///path` or `postgresql://…`, brought up to date when it is opened.

    With `upgrade` false it is left as it is, for who fills an empty one.

    Raises:
        InvalidRequest: the URL is neither.
        Unavailable: the database cannot be opened, or was written by a newer Graftwork.
    """

    def __init__(self, url: str, *, busy_timeout_s: float = BUSY_TIMEOUT_S, upgrade: bool = True) -> None:
        self._busy_timeout_s = busy_timeout_s
        self._turn = threading.Lock()
        self._backend: Backend = open_backend(url, busy_timeout_s)
        try:
            if upgrade:
                migrate(self.reading, self.transaction, self._backend.place)
        except BaseException:
            self.close()
            raise

    def transaction(self) -> AbstractContextManager[Transaction]:
        """A writing transaction: committed when the block ends, rolled back when it raises. Keep it short.

        It sees everything that was committed before it began, and nobody else writes until it ends.

        Raises:
            Unavailable: other writers held the database for longer than the busy timeout, or it went away. When
                it went away while committing, nobody can know whether the change was made: look, or repeat it.
        """
        return self._transaction()

    @contextmanager
    def _transaction(self) -> Iterator[Transaction]:
        if not self._turn.acquire(timeout=self._busy_timeout_s):
            raise Unavailable(f"The database {self._backend.place} is busy with other writers; try again.")
        try:
            with self._foreign_errors(), self._backend.writer.begin() as connection:
                self._backend.wait_for_turn(connection)
                yield connection
            self._backend.committed()
        finally:
            self._turn.release()

    def reading(self) -> AbstractContextManager[Transaction]:
        """A reading transaction: all its queries see one moment; it never waits for writers."""
        return self._reading()

    @contextmanager
    def _reading(self) -> Iterator[Transaction]:
        with self._foreign_errors(), self._backend.reader.begin() as connection:
            yield connection

    def data_version(self) -> int:
        """A number that changes when this process has committed since, and others as far as one can ask (~2 µs).

        What cannot be asked for is told: see `watch`.
        """
        return self._backend.data_version()

    def watch(self, changed: Callable[[], None]) -> bool:
        """Whether the database tells of commits; where it does not, `data_version` sees everybody's.

        `changed` is called after each of this process, by who commits, before his call returns, and soon after each of
        others in a thread of its own.
        """
        return self._backend.watch(changed)

    def close(self) -> None:
        self._backend.close()

    def __enter__(self) -> Database:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @contextmanager
    def _foreign_errors(self) -> Iterator[None]:
        try:
            yield
        except PoolTimeout as exc:
            raise Unavailable(f"The database {self._backend.place} is busy; try again.") from exc
        except DBAPIError as exc:
            state = getattr(exc.orig, "sqlstate", None)
            down = isinstance(exc, OperationalError) and not (state or "").startswith(_TOO_LARGE)
            if down or exc.connection_invalidated or state == _READ_ONLY:
                reason = " ".join(str(exc.orig).split()).rstrip(".")
                raise Unavailable(f"The database {self._backend.place} cannot be used now: {reason}.") from exc
            raise


def has_tables(url: str) -> bool:
    """Whether tables of ours are in the database at `url`; makes none, nor the file. Raises as `Database`."""
    if (file := file_of(url)) is not None and not file.is_file():
        return False
    with Database(url, upgrade=False) as database, database.reading() as tx:
        return has_schema(tx)

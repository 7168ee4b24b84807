"""Backend: what differs between the databases; the table of those there are."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Protocol

from sqlalchemy import Connection, Engine
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from graftwork.errors import InvalidRequest

#: By the name of SQLAlchemy's dialect. Import paths, so that a database costs nothing until it is used.
BACKENDS: dict[str, str] = {
    "sqlite": "graftwork.db.sqlite:SQLite",
    "postgresql": "graftwork.db.postgresql:PostgreSQL",
}


class Backend(Protocol):
    """One database, opened; for use from any thread."""

    place: str  #: what messages call it; never with a password
    reader: Engine  #: its transactions see one moment
    writer: Engine

    def wait_for_turn(self, connection: Connection) -> None:
        """Called first in each writing transaction: returns when no other process writes, until this one ends."""
        ...

    def committed(self) -> None:
        """Called after each writing transaction of this process."""
        ...

    def data_version(self) -> int:
        """As `Database.data_version`."""
        ...

    def watch(self, changed: Callable[[], None]) -> bool:
        """As `Database.watch`."""
        ...

    def close(self) -> None: ...


def open_backend(url: str, busy_timeout_s: float) -> Backend:
    """The database at `url`.

    Raises:
        InvalidRequest: the URL cannot be read, or is of no database that we know. It is not repeated: it may hold
            a password.
    """
    parsed = _parsed(url)
    module, name = BACKENDS[parsed.get_backend_name()].split(":")
    made: Callable[[URL, float], Backend] = getattr(import_module(module), name)
    return made(parsed, busy_timeout_s)


def file_of(url: str) -> Path | None:
    """The file that is the database at `url`, where it is one; raises as `open_backend`."""
    parsed = _parsed(url)
    return Path(parsed.database) if parsed.get_backend_name() == "sqlite" and parsed.database else None


def _parsed(url: str) -> URL:
    try:
        parsed = make_url(url)
        if parsed.get_backend_name() in BACKENDS:
            return parsed
    except (ArgumentError, ValueError):
        pass
    raise InvalidRequest(
        "The database URL is not one like sqlite:///path or postgresql://user@host/name.", field="database_url"
    )

"""A PostgreSQL server of our own for the whole test session, and new databases in it."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from graftwork.db import Database

#: Nothing here outlives the session: durability would only cost time.
FAST = "-c fsync=off -c synchronous_commit=off -c full_page_writes=off -c max_connections=200"
TEMPLATE = "template_graftwork"


class PostgreSQLServer:
    """A running server that is reached through a socket in `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._numbers = itertools.count(1)
        self.execute(f"CREATE DATABASE {TEMPLATE}")
        Database(self.url(TEMPLATE)).close()

    def url(self, name: str) -> str:
        return f"postgresql://postgres@/{name}?host={self.folder}"

    def execute(self, statement: str) -> list[tuple[object, ...]]:
        """Run one statement outside all databases of tests."""
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            answer = connection.execute(statement.encode())
            return answer.fetchall() if answer.description else []

    @contextmanager
    def database(self, template: str = TEMPLATE) -> Iterator[str]:
        """The URL of a new database at head (or, from template1, an empty one), dropped at the end."""
        name = f"test_{next(self._numbers)}"
        self.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        try:
            yield self.url(name)
        finally:
            self.execute(f"DROP DATABASE {name} WITH (FORCE)")


@contextmanager
def postgresql_server() -> Iterator[PostgreSQLServer]:
    """A new server; skips the test where PostgreSQL's programs are not installed."""
    initdb, pg_ctl = _program("initdb"), _program("pg_ctl")
    # Not below pytest's folder, which only we may enter: as root we cannot run the server ourselves.
    folder = Path(tempfile.mkdtemp(prefix="graftwork-pg-"))
    try:
        if os.geteuid() == 0:
            shutil.chown(folder, "postgres")
        data = folder / "data"
        _run([initdb, "-D", str(data), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync"])
        options = f"-k {folder} -c listen_addresses='' {FAST}"
        _run([pg_ctl, "-D", str(data), "-w", "-l", str(folder / "log"), "-o", options, "start"])
        try:
            yield PostgreSQLServer(folder)
        finally:
            _run([pg_ctl, "-D", str(data), "-m", "immediate", "stop"])
    finally:
        shutil.rmtree(folder)


def _run(command: list[str]) -> None:
    if os.geteuid() == 0:
        command = ["runuser", "-u", "postgres", "--", *command]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, cwd="/", timeout=60)


def _program(name: str) -> str:
    """Debian keeps these out of PATH."""
    installed = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    found = shutil.which(name) or (str(installed[-1]) if installed else None)
    if found is None:
        pytest.skip(f"PostgreSQL is not installed: {name} is missing (Debian: apt-get install postgresql)")
    return found

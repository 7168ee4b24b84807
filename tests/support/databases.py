"""Fixtures of databases: what is tested on one kind is tested on both."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

import pytest

from graftwork.db import Database
from support.postgresql import PostgreSQLServer, postgresql_server

#: Gives the URL of a new database at head, which is gone afterwards.
NewDatabase = Callable[[], AbstractContextManager[str]]
#: Makes a folder the home of a server that has started once: it holds nothing but a database at head.
NewHome = Callable[[Path], Path]


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgreSQLServer]:
    with pytest.MonkeyPatch.context() as patch, postgresql_server() as server:
        # Whoever stops this process for a while, a debugger or a busy machine, does not make it a client that hangs.
        patch.setattr("graftwork.db.postgresql.HANG_S", 600.0)
        yield server


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database at head, made once: copying it is faster than migrating."""
    path = tmp_path_factory.mktemp("template") / "graftwork.db"
    Database(f"sqlite:///{path}").close()
    return path


@pytest.fixture(scope="session")
def new_home(sqlite_template: Path) -> NewHome:
    def made(home: Path) -> Path:
        if not home.exists():  # a server and a command line of one test may share it
            home.mkdir(parents=True)
            shutil.copy(sqlite_template, home)
        return home

    return made


@pytest.fixture(params=["sqlite", "postgresql"])
def database_kind(request: pytest.FixtureRequest) -> str:
    kind: str = request.param
    return kind


@pytest.fixture
def new_database(request: pytest.FixtureRequest, database_kind: str, tmp_path: Path) -> NewDatabase:
    if database_kind == "postgresql":
        server: PostgreSQLServer = request.getfixturevalue("postgresql")
        return server.database
    template: Path = request.getfixturevalue("sqlite_template")

    @contextmanager
    def copied() -> Iterator[str]:
        path = tmp_path / f"{len(list(tmp_path.glob('*.db')))}.db"
        yield f"sqlite:///{shutil.copy(template, path)}"

    return copied


@pytest.fixture
def database_url(new_database: NewDatabase) -> Iterator[str]:
    """A new database at head."""
    with new_database() as url:
        yield url


@pytest.fixture
def empty_url(request: pytest.FixtureRequest, database_kind: str, tmp_path: Path) -> Iterator[str]:
    """A database in which nothing is: no file, or no table."""
    with ExitStack() as stack:
        if database_kind == "sqlite":
            yield f"sqlite:///{tmp_path / 'home' / 'graftwork.db'}"
        else:
            server: PostgreSQLServer = request.getfixturevalue("postgresql")
            yield stack.enter_context(server.database(template="template1"))

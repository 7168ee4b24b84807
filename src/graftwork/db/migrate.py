"""Migrate: bring a database to the schema of this code; alembic is imported only when it has work to do."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, inspect, text
from sqlalchemy.exc import DBAPIError

from graftwork.db.schema import HEAD
from graftwork.errors import Unavailable

if TYPE_CHECKING:
    from alembic.config import Config

MIGRATIONS = Path(__file__).parent / "migrations"


Opened = Callable[[], AbstractContextManager[Connection]]
#: PostgreSQL's undefined_table.
_NO_TABLE = "42P01"


def migrate(reading: Opened, transaction: Opened, place: str) -> None:
    """Bring the database to `HEAD`; does nothing, in one query, when it is there.

    Processes may do this at once: writers take turns, and the second finds it done.

    Raises:
        Unavailable: the database cannot be opened, or a newer Graftwork wrote it.
    """
    if _revision(reading, place) == HEAD:
        return
    with transaction() as tx:
        found = _revision_in(tx) if has_schema(tx) else None
        if found != HEAD:
            upgrade(tx, found)


def has_schema(tx: Connection) -> bool:
    """Whether tables of ours were ever made here."""
    return inspect(tx).has_table("alembic_version")


def alembic_config(connection: Connection | None = None) -> Config:
    """alembic's settings for the migrations inside the package."""
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config


def upgrade(tx: Connection, found: str | None, to: str = "head") -> None:
    """Bring a database from the revision `found` to another one.

    Raises:
        Unavailable: this code does not know one of them.
    """
    # Before the import, which tells of plugins already: they and contexts are nobody's news.
    logging.getLogger("alembic").setLevel(logging.WARNING)
    from alembic import command
    from alembic.script import ScriptDirectory

    config = alembic_config(tx)
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    strange = next((one for one in (found, to) if one not in {None, "head", *known}), None)
    if strange is not None:
        raise Unavailable(
            f"The database is at revision {strange}, which this Graftwork (revision {HEAD}) does not know: "
            "a newer one wrote it. Upgrade Graftwork."
        )
    command.upgrade(config, to)


def _revision(reading: Opened, place: str) -> str | None:
    try:
        with reading() as connection:
            try:
                return _revision_in(connection)
            except DBAPIError as exc:
                if getattr(exc.orig, "sqlstate", None) == _NO_TABLE or "no such table" in str(exc.orig):
                    return None
                raise
    except DBAPIError as exc:
        raise Unavailable(f"{place} is not a database of ours: {exc.orig}.") from exc


def _revision_in(connection: Connection) -> str | None:
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()

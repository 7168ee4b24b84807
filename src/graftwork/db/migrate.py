"""Migrate: bring a database to the schema of this code; alembic is imported only when it has work to do."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, Engine, inspect, text
from sqlalchemy.exc import DatabaseError, OperationalError

from graftwork.db.schema import HEAD
from graftwork.errors import Unavailable

if TYPE_CHECKING:
    from alembic.config import Config

MIGRATIONS = Path(__file__).parent / "migrations"


def migrate(engine: Engine, transaction: Callable[[], AbstractContextManager[Connection]]) -> None:
    """Bring the database to `HEAD`; does nothing, in one query, when it is there.

    Two processes may do this at once: the second waits for the first and then finds it done.

    Raises:
        Unavailable: the database cannot be opened, or a newer Graftwork wrote it.
    """
    if _revision(engine) == HEAD:
        return
    with transaction() as tx:
        found = _revision_in(tx) if inspect(tx).has_table("alembic_version") else None
        if found != HEAD:
            _upgrade(tx, found)


def alembic_config(connection: Connection | None = None) -> Config:
    """alembic's settings for the migrations inside the package."""
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    return config


def _upgrade(tx: Connection, found: str | None) -> None:
    # Before the import, which tells of plugins already: they and contexts are nobody's news.
    logging.getLogger("alembic").setLevel(logging.WARNING)
    from alembic import command
    from alembic.script import ScriptDirectory

    config = alembic_config(tx)
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if found is not None and found not in known:
        raise Unavailable(
            f"The database is at revision {found}, which this Graftwork (revision {HEAD}) does not know: "
            "a newer one wrote it. Upgrade Graftwork."
        )
    command.upgrade(config, "head")


def _revision(engine: Engine) -> str | None:
    try:
        with engine.begin() as connection:
            return _revision_in(connection)
    except OperationalError as exc:
        if "no such table" in str(exc.orig):
            return None
        raise Unavailable(f"The database {engine.url.database} cannot be opened: {exc.orig}.") from exc
    except DatabaseError as exc:
        raise Unavailable(f"{engine.url.database} is not a database of ours: {exc.orig}.") from exc


def _revision_in(connection: Connection) -> str | None:
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()

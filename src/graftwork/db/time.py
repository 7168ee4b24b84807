"""database_time: what time it is to the database, the one clock that all servers of it share."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Float, select
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from graftwork.db.connect import Database, Transaction

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class _Now(FunctionElement[float]):
    """Seconds since 1970, now and not when the transaction began."""

    type = Float()
    inherit_cache = True


@compiles(_Now, "sqlite")
def _sqlite(_element: Any, _compiler: Any, **_more: Any) -> str:
    return "((julianday('now') - 2440587.5) * 86400.0)"  # to the millisecond


@compiles(_Now, "postgresql")
def _postgresql(_element: Any, _compiler: Any, **_more: Any) -> str:
    return "extract(epoch from clock_timestamp())::double precision"


def database_time(tx: Transaction) -> float:
    """Seconds since 1970, by the database's clock."""
    return float(tx.execute(select(_Now())).scalar_one())


class DatabaseClock:
    """A `Clock` that reads the database's."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def __call__(self) -> datetime:
        with self._database.reading() as tx:
            return _EPOCH + timedelta(seconds=database_time(tx))

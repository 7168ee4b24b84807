"""Keys: rows at many keys at once, each found by the index of the key."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from sqlalchemy import Column, Row, Select, Table, and_, values

from graftwork.db import Transaction

_AT_ONCE = 500

#: The wanted rows of a table; those of one version in the order of the primary key.
Rows = Callable[[Table], Iterable[Row[Any]]]


def rows_at(
    tx: Transaction, query: Select[Any], columns: Sequence[Column[Any]], keys: Iterable[Sequence[Any]]
) -> Iterator[Row[Any]]:
    """The rows of `query` whose `columns` have the values of any of `keys`; only those of one key in its order."""
    rows = list(keys)
    for first in range(0, len(rows), _AT_ONCE):
        yield from tx.execute(at_keys(query, columns, rows[first : first + _AT_ONCE]))


def at_keys(query: Select[Any], columns: Sequence[Column[Any]], keys: Iterable[Sequence[Any]]) -> Select[Any]:
    """A query for only the rows whose `columns` have the values of any of not too many keys: each is bound by itself.

    NOTE: `(a, b) IN (VALUES …)` would say the same, and SQLite would read the whole table for it.
    """
    named = (Column(column.name, column.type) for column in columns)
    wanted = values(*named, name="wanted").data([tuple(key) for key in keys]).cte()
    return query.join_from(columns[0].table, wanted, and_(*(column == wanted.c[column.name] for column in columns)))

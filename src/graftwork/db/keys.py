"""Keys: rows at many keys at once, each found by the index of the key."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from sqlalchemy import BigInteger, Column, Row, Select, String, Table, and_, literal, select
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeEngine

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
    """A query for only the rows whose `columns`, of text and whole numbers, have the values of any of `keys`.

    NOTE: the keys are one parameter, however many they are. `(a, b) IN (VALUES …)` would say the same, but SQLite would
    read the whole table for it, and a thousand parameters take longer to bind than their rows to find.
    """
    told = json.dumps([list(key) for key in keys])
    each = _Each(literal(told)).table_valued("value")
    parts = [
        (_Text if isinstance(column.type, String) else _Number)(each.c.value, literal(place)).label(column.name)
        for place, column in enumerate(columns)
    ]
    wanted = select(*parts).select_from(each).cte("wanted")
    return query.join_from(columns[0].table, wanted, and_(*(column == wanted.c[column.name] for column in columns)))


class _Each(FunctionElement[Any]):
    """The elements of a JSON array, as rows with a `value`."""

    inherit_cache = True


class _Text(FunctionElement[Any]):
    """What stands at one place of a JSON array, as text."""

    type: TypeEngine[Any] = String()
    inherit_cache = True


class _Number(_Text):
    """What stands there as a whole number."""

    type = BigInteger()
    inherit_cache = True


@compiles(_Each)
def _each(element: _Each, compiler: Any, **kw: Any) -> str:
    return f"json_each({compiler.process(element.clauses, **kw)})"


@compiles(_Each, "postgresql")
def _each_postgresql(element: _Each, compiler: Any, **kw: Any) -> str:
    return f"json_array_elements(CAST({compiler.process(element.clauses, **kw)} AS json))"


@compiles(_Text)
def _text(element: _Text, compiler: Any, **kw: Any) -> str:
    array, place = (compiler.process(one, **kw) for one in element.clauses)
    return f"json_extract({array}, '$[' || {place} || ']')"


@compiles(_Text, "postgresql")
def _text_postgresql(element: _Text, compiler: Any, **kw: Any) -> str:
    array, place = (compiler.process(one, **kw) for one in element.clauses)
    return f"({array} ->> {place})"


@compiles(_Number, "postgresql")
def _number_postgresql(element: _Number, compiler: Any, **kw: Any) -> str:
    return f"CAST({_text_postgresql(element, compiler, **kw)} AS bigint)"

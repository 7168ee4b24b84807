"""Sort: the order of what a search finds, always to the last version; and page tokens, which go on in it."""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import ColumnElement, Row, Select, and_, exists, func, literal, select, tuple_

from graftwork.access.names import MAX_LENGTH as MAX_NAME
from graftwork.db.index_terms import VERSION
from graftwork.db.keys import at_keys
from graftwork.db.schema import facts, metrics, versions
from graftwork.errors import InvalidRequest
from graftwork.protocol.canonical import canonical, sha256
from graftwork.registry.evaluations.rows import is_current
from graftwork.registry.search.filter import Mistake
from graftwork.registry.search.parser import read_field
from graftwork.registry.search.query import Key
from graftwork.registry.search.searched import of
from graftwork.registry.versions import LIVE

DEFAULT: Final = "created_at desc"
#: What versions themselves are sorted by; besides there are `version` and `metrics.NAME`.
COLUMNS: Final = {
    "created_at": versions.c.created_at,
    "name": versions.c.adapter,
    "rank": versions.c.rank,
    "bytes": versions.c.bytes,
}
_MAX_TOKEN = 4096
_MAX_INTEGER = 2**63


@dataclass(frozen=True)
class Sort:
    """By a column, and then by adapter and sequence, all in one direction, so that an index has that order."""

    field: str
    descending: bool
    value: Any  #: the column
    table: Any = versions
    where: ColumnElement[bool] | None = None  #: which rows of another table count

    def rows(self, tenant: str, few: Iterable[Key] | None, last: Sequence[Any] | None) -> Select[Any]:
        """(adapter, sequence, value) of a tenant's versions in this order; those without such a value are left out.

        Args:
            few: the only ones to look at.
            last: keys of the version that they come after.
        """
        query = select(*self._keys[-2:], self.value.label("value"))
        if self.where is not None:
            query = query.join_from(self.table, versions, of(self.table, versions)).where(
                self.table.c.tenant == tenant, self.where
            )
        if few is not None:
            query = at_keys(query, (versions.c.tenant, versions.c.adapter, versions.c.sequence), few)
        if last is not None:
            bound = tuple_(*(literal(value, key.type) for key, value in zip(self._keys, last, strict=True)))
            query = query.where(tuple_(*self._keys) < bound if self.descending else tuple_(*self._keys) > bound)
        # Few are sorted: lest SQLite go through all versions in order, and look for each among the few.
        keys = self._keys if few is None else [func.coalesce(key, key) for key in self._keys]
        ordered = (key.desc() if self.descending else key.asc() for key in keys)
        return query.where(versions.c.tenant == tenant, LIVE).order_by(*ordered)

    def token(self, query: str, row: Row[Any]) -> str:
        """What leads to the page behind this row of the query that is called so."""
        return base64.urlsafe_b64encode(canonical([query, *self._last(row)], what="page_token").encode()).decode()

    def read(self, query: str, token: str) -> list[Any]:
        """The keys that `token` was made of.

        Raises:
            InvalidRequest: this query gave out no such token.
        """
        try:
            last: list[Any]
            said, *last = json.loads(base64.b64decode(token[:_MAX_TOKEN].encode(), b"-_", validate=True))
        except (ValueError, TypeError, RecursionError, binascii.Error):
            said, last = None, []
        fits = said == query and len(last) == len(self._keys)
        if not fits or not all(_fits(value, key.type.python_type) for value, key in zip(last, self._keys, strict=True)):
            raise InvalidRequest(
                "page_token is not one that this search gave out; repeat the same filter, text and sort with it.",
                field="page_token",
            )
        return last

    @property
    def _keys(self) -> tuple[Any, ...]:
        own = (self.table.c.adapter, self.table.c.sequence)
        return own if self.field == "name" else (self.value, *own)

    def _last(self, row: Row[Any]) -> list[Any]:
        return [row.adapter, row.sequence] if self.field == "name" else [row.value, row.adapter, row.sequence]


def parse_sort(text: str) -> Sort:
    """`created_at desc`, `rank`, `metrics.rouge1 desc`; upwards where nothing else is said.

    Raises:
        InvalidRequest: showing where.
    """
    name, _, direction = text.strip().rpartition(" ")
    if direction.lower() not in ("asc", "desc"):
        name, direction = text.strip(), "asc"
    field = read_field(name.strip(), 0)
    part, descending = field.part.strip('"'), direction.lower() == "desc"
    if field.name in COLUMNS and not part:
        return Sort(name, descending, COLUMNS[field.name])
    # Tables by names of their own here: what a filter asks of the same table is about other rows of it.
    if name == VERSION:
        fact = facts.alias()
        return Sort(name, descending, fact.c.text, fact, fact.c.key == VERSION)
    if field.name == "metrics." and 0 < len(part) <= MAX_NAME and part.isprintable():
        metric = metrics.alias()
        return Sort(name, descending, metric.c.value, metric, and_(metric.c.name == part, _is_last(metric)))
    fields = ", ".join([*COLUMNS, VERSION, "metrics.NAME"])
    raise Mistake(text, 0, f"expected what to sort by, one of {fields}, and asc or desc.", field="sort")


def name_of(tenant: str, filter: str, text: str, sort: str) -> str:
    """A short name for a query, for its page tokens."""
    return sha256(canonical([tenant, filter, text, sort], what="search"))[-16:]


def _is_last(metric: Any) -> ColumnElement[bool]:
    later = metrics.alias()
    same = and_(of(later, metric), later.c.name == metric.c.name)
    after = exists().where(same, later.c.number > metric.c.number, is_current(later))
    return and_(is_current(metric), ~after)


def _fits(value: Any, kind: type) -> bool:
    if kind is str:
        return isinstance(value, str) and len(value) <= MAX_NAME * 2 and value.isprintable()
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return math.isfinite(value) if kind is float else isinstance(value, int) and abs(value) < _MAX_INTEGER

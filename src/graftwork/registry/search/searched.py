"""Searched: how what filters can ask of a version becomes SQL, by where it is kept.

Everything is compared by bound expressions; no text of a filter is ever a part of a statement. A clause speaks of one
row of `versions` and reaches other tables only by that row's own tenant, which the search has fixed outside of it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal, Protocol

from sqlalchemy import BigInteger, ColumnElement, Float, Select, and_, exists, false, func, literal, or_, select, true

from graftwork.access.clock import timestamp
from graftwork.db.index_terms import version_key
from graftwork.db.schema import (
    adapters,
    facts,
    metrics,
    tags,
    texts,
    versions,
)
from graftwork.errors import InvalidRequest, meant
from graftwork.registry.evaluations.rows import is_current
from graftwork.registry.reference import BEYOND_HEX, DIGEST
from graftwork.registry.search.filter import Term, Value
from graftwork.registry.search.operators import contains
from graftwork.registry.semantic_version import parse_semver

Clause = ColumnElement[bool]
#: (tenant, adapter, sequence) of versions that may fit, among them all that do; some perhaps twice.
Candidates = Select[tuple[str, str, int]]
_COMPARE: dict[str, Callable[[Any, Any], Clause]] = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "~": contains,
}
#: Tables that have rows about adapters too, with sequence 0.
SHARED: Final = (tags, texts)
_EXACT: Final = 2**53  # from here on not every whole number is a float


class Wrong(Exception):
    """What is wrong with a term, and where."""

    def __init__(self, at: int, message: str) -> None:
        super().__init__(message)
        self.at, self.message = at, message


class Searched(Protocol):
    """One entry of FIELDS."""

    @property
    def about(self) -> str:
        """What it is, for the reference."""
        ...

    def clause(self, term: Term) -> Clause:
        """Whether the row of `versions` fits; never null. Raises Wrong."""
        ...

    def candidates(self, term: Term, tenant: str) -> Candidates | None:
        """Those that an index finds without reading all versions; None where there is none for it."""
        ...


@dataclass(frozen=True)
class Column:
    """A column of `versions`, which every version has."""

    about: str
    column: ColumnElement[Any]
    kind: Literal["word", "text", "number", "time", "digest"] = "word"  #: of words none comes before another
    indexed: bool = False
    among: tuple[str, ...] = ()  #: the only words that there are

    def clause(self, term: Term) -> Clause:
        if term.operator == "has":
            return true()
        return or_(*(self._compared(term, value) for value in term.values))

    def candidates(self, term: Term, tenant: str) -> Candidates | None:
        if not self.indexed or term.operator in ("has", "~"):
            return None
        return rows_of(versions, tenant).where(self.clause(term))

    def _compared(self, term: Term, value: Value) -> Clause:
        match self.kind:
            case "number":
                return _COMPARE[_ordered(term)](self.column, _bound(_number(term, value)))
            case "time":
                return _in_time(self.column, _ordered(term), value)
            case "digest" if term.operator == "=":
                return _with_digest(self.column, value)
            case "word" | "digest" if term.operator not in ("=", "~"):
                raise Wrong(term.field.at, f"{term.field} has no order; ask with = or ~.")
        if self.among and term.operator == "=" and value.text not in self.among:
            raise Wrong(value.at, f"no {term.field} is {value.text[:40]!a}. {meant(value.text, self.among)}")
        return _COMPARE[term.operator](self.column, value.text)


@dataclass(frozen=True)
class Facts:
    """Rows of `facts` or `tags` under a key, of which a version has any number; the part of the field ends the key."""

    about: str
    keys: tuple[str, ...]
    table: Any = facts

    def clause(self, term: Term) -> Clause:
        return exists().where(of(self.table, versions), self._fits(term))

    def candidates(self, term: Term, tenant: str) -> Candidates | None:
        if term.operator == "~":
            return None
        return rows_of(self.table, tenant).where(self._fits(term))

    def _fits(self, term: Term) -> Clause:
        keys = [key + term.field.part for key in self.keys]
        key = self.table.c.key == keys[0] if len(keys) == 1 else self.table.c.key.in_(keys)
        if term.operator == "has":
            return and_(key)
        return and_(key, or_(*(self._compared(term, value) for value in term.values)))

    def _compared(self, term: Term, value: Value) -> Clause:
        if value.number is not None and term.operator != "~":
            return _COMPARE[term.operator](self.table.c.number, literal(value.number, Float(53)))
        return _COMPARE[term.operator](self.table.c.text, value.text)


@dataclass(frozen=True)
class Version(Facts):
    """The semantic version, in the order of semantic versions."""

    def _compared(self, term: Term, value: Value) -> Clause:
        try:
            key = version_key(parse_semver(value.text))
        except InvalidRequest as error:
            raise Wrong(value.at, error.message) from error
        return _COMPARE[_ordered(term)](facts.c.text, key)


@dataclass(frozen=True)
class Metric:
    """The value of a metric in the version's last evaluation that has it and that nothing supersedes."""

    about: str

    def clause(self, term: Term) -> Clause:
        of_version = and_(of(metrics, versions), self._named(term), is_current(metrics))
        if term.operator == "has":
            return exists().where(of_version)
        last = select(metrics.c.value).where(of_version).order_by(metrics.c.number.desc()).limit(1).scalar_subquery()
        return func.coalesce(self._compared(last, term), false())

    def candidates(self, term: Term, tenant: str) -> Candidates | None:
        found = rows_of(metrics, tenant).where(self._named(term))
        return found if term.operator == "has" else found.where(self._compared(metrics.c.value, term))

    @staticmethod
    def _named(term: Term) -> Clause:
        return metrics.c.name == term.field.part

    @staticmethod
    def _compared(value: ColumnElement[float], term: Term) -> Clause:
        compare = _COMPARE[_ordered(term)]
        return or_(*(compare(value, literal(_number(term, given), Float(53))) for given in term.values))


@dataclass(frozen=True)
class Said:
    """A column of rows that speak of versions."""

    about: str
    column: ColumnElement[str]
    only: Clause = field(default_factory=true)  #: which of the rows count

    def clause(self, term: Term) -> Clause:
        return exists().where(of(self._table, versions), self._fits(term))

    def candidates(self, term: Term, tenant: str) -> Candidates | None:
        return rows_of(self._table, tenant).where(self._fits(term))

    @property
    def _table(self) -> Any:
        return self.column.table

    def _fits(self, term: Term) -> Clause:
        if term.operator == "has":
            return self.only
        return and_(self.only, or_(*(_worded(self.column, term, value) for value in term.values)))


@dataclass(frozen=True)
class OfAdapter:
    """A text of the version's adapter; one that is empty is not there."""

    about: str
    column: ColumnElement[str]

    def clause(self, term: Term) -> Clause:
        own = and_(adapters.c.tenant == versions.c.tenant, adapters.c.name == versions.c.adapter, self.column != "")
        if term.operator == "has":
            return exists().where(own)
        return exists().where(own, or_(*(_worded(self.column, term, value) for value in term.values)))

    def candidates(self, term: Term, tenant: str) -> Candidates | None:
        return None


def of(table: Any, version: Any) -> Clause:
    """Whether a row of a table speaks of the version; what row 0 says of an adapter, it says of all its versions."""
    same, shared = table.c.sequence == version.c.sequence, table.c.sequence.in_([version.c.sequence, 0])
    same_adapter = (table.c.tenant == version.c.tenant, table.c.adapter == version.c.adapter)
    return and_(*same_adapter, shared if table in SHARED else same)


def rows_of(table: Any, tenant: str) -> Candidates:
    """Of which versions the rows of a tenant in a table speak."""
    if table not in SHARED:
        return select(table.c.tenant, table.c.adapter, table.c.sequence).where(table.c.tenant == tenant)
    version = versions.alias()
    found = select(version.c.tenant, version.c.adapter, version.c.sequence)
    return found.join_from(table, version, of(table, version)).where(table.c.tenant == tenant)


def _worded(column: ColumnElement[str], term: Term, value: Value) -> Clause:
    if term.operator not in ("=", "~"):
        raise Wrong(term.field.at, f"{term.field} has no order; ask with = or ~.")
    return _COMPARE[term.operator](column, value.text)


def _ordered(term: Term) -> str:
    if term.operator == "~":
        raise Wrong(term.field.at, f"{term.field} is no text; compare it with = < <= > or >=.")
    return term.operator


def _number(term: Term, value: Value) -> float:
    if value.number is None:
        raise Wrong(value.at, f"{term.field} is a number, and {value.text[:40]!a} is none.")
    return value.number


def _with_digest(column: ColumnElement[str], value: Value) -> Clause:
    """As references name it: by its first twelve digits or more, here also as tables show them, without `sha256:`."""
    prefix = f"sha256:{value.text.removeprefix('sha256:')}"
    if not DIGEST.fullmatch(prefix):
        raise Wrong(value.at, f"{value.text[:80]!a} is no digest: write 12 to 64 lower-case hex digits of it.")
    return and_(column >= prefix, column < prefix + BEYOND_HEX)


def _bound(number: float) -> ColumnElement[Any]:
    """So typed that an index on whole numbers serves it, where it is one."""
    if number.is_integer() and abs(number) < _EXACT:
        return literal(int(number), BigInteger)
    return literal(number, Float(53))


def _in_time(column: ColumnElement[str], compare: str, value: Value) -> Clause:
    """A date is the whole day, a time that moment; both in UTC unless it says otherwise."""
    try:
        moment = datetime.fromisoformat(value.text)
        first = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        is_day = len(value.text) <= len("2026-01-31")
        last = first + (timedelta(days=1) if is_day else timedelta(microseconds=1))
        begin, end = timestamp(first), timestamp(last)
    except (ValueError, OverflowError) as error:
        raise Wrong(value.at, f"{value.text[:40]!a} is no date as 2026-01-31 or time as 2026-01-31T09:30Z.") from error
    match compare:
        case "<":
            return column < begin
        case ">=":
            return column >= begin
        case "<=":
            return column < end
        case ">":
            return column >= end
    return and_(column >= begin, column < end)

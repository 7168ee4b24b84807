"""Query: a filter and words to the condition that a search puts on versions, and to the few that it need look at.

NOTE: a search reads versions in the order it was asked for until a page is full, which is fast where many fit. Where
few do, it would read them all. So what an index can find is counted first, up to `FEW`; where there are no more of
it, only these are looked at. No statistics are needed for it, which SQLite has not and PostgreSQL has late.
"""

from __future__ import annotations

from sqlalchemy import and_, exists, func, not_, or_, select, true, tuple_, union

from graftwork.db import Transaction
from graftwork.db.schema import texts, versions
from graftwork.registry.search.fields import Candidates, Clause, of, rows_of, searched
from graftwork.registry.search.filter import And, Filter, Not, Or, Term
from graftwork.registry.search.operators import has_words

FEW = 1000
#: Words, each with whether it is only the beginning of one.
Words = list[tuple[str, bool]]


def condition(filter: Filter | None, words: Words) -> Clause:
    """What a version must fulfil; raises Wrong where the filter asks for what cannot be."""
    asked = [] if filter is None else [_clause(filter)]
    if words:
        asked.append(exists().where(of(texts, versions), has_words(words)))
    return and_(true(), *asked)


def narrowed(tx: Transaction, tenant: str, filter: Filter | None, words: Words) -> Clause:
    """Which versions need to be looked at; all of them where no index finds few enough."""
    if words and _few(tx, found := rows_of(texts, tenant).where(has_words(words))):
        return _among([found])
    few = None if filter is None else _narrowed(tx, tenant, filter)
    return true() if few is None else _among(few)


def _clause(filter: Filter) -> Clause:
    match filter:
        case Term():
            return searched(filter.field).clause(filter)
        case Not(item):
            return not_(_clause(item))
        case And(items):
            return and_(*map(_clause, items))
        case Or(items):
            return or_(*map(_clause, items))


def _narrowed(tx: Transaction, tenant: str, filter: Filter) -> list[Candidates] | None:
    match filter:
        case Term():
            found = searched(filter.field).candidates(filter, tenant)
            return [found] if found is not None and _few(tx, found) else None
        case And(items):
            return next((few for item in items if (few := _narrowed(tx, tenant, item)) is not None), None)
        case Or(items):
            found_by_each = []
            for item in items:
                if (few := _narrowed(tx, tenant, item)) is None:
                    return None
                found_by_each += few
            return found_by_each
    return None


def _few(tx: Transaction, found: Candidates) -> bool:
    counted: int = tx.execute(select(func.count()).select_from(found.limit(FEW + 1).subquery())).scalar_one()
    return counted <= FEW


def _among(found: list[Candidates]) -> Clause:
    # The tenant is inside the row value: beside it, SQLite would not use the index for the rest.
    return tuple_(versions.c.tenant, versions.c.adapter, versions.c.sequence).in_(union(*found))

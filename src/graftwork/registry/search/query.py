"""Query: a filter and words to the condition that a search puts on versions, and to the few that it need look at.

NOTE: a search reads versions in the order it was asked for until a page is full, which is fast where many fit. Where
few do, it would read them all. So what an index can find is counted first, up to `FEW`; where there are no more of
it, only these are looked at; terms that find more, up to `SOME`, may find few together. No statistics are needed for
it, which SQLite has not and PostgreSQL has late.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import and_, exists, func, not_, or_, select, true

from graftwork.db import Transaction
from graftwork.db.schema import texts, versions
from graftwork.registry.search.fields import Candidates, Clause, of, rows_of, searched
from graftwork.registry.search.filter import And, Filter, Not, Or, Term
from graftwork.registry.search.operators import has_words

FEW = 500
SOME = 2500
#: Tenant, adapter and sequence of a version.
Key = tuple[str, str, int]
#: Words, each with whether it is only the beginning of one.
Words = list[tuple[str, bool]]


def condition(filter: Filter | None, words: Words) -> Clause:
    """What a version must fulfil; raises Wrong where the filter asks for what cannot be."""
    asked = [] if filter is None else [_clause(filter)]
    if words:
        asked.append(exists().where(of(texts, versions), has_words(words)))
    return and_(true(), *asked)


def few_of(tx: Transaction, tenant: str, filter: Filter | None) -> set[Key] | None:
    """The only versions that need to be looked at, by key; None where no index finds few enough."""
    return None if filter is None else _few(tx, tenant, filter)


def few_with(tx: Transaction, tenant: str, words: Words) -> set[Key] | None:
    """All versions that have the words; None where that are not few."""
    if not words:
        return None
    # The tenant by an expression, lest SQLite go through all of his texts by it: words find far fewer.
    own = select(texts.c.tenant, texts.c.adapter, texts.c.sequence).where(texts.c.tenant.concat("") == tenant)
    found = _at_most(tx, own.where(has_words(words)))
    adapters = {adapter for _, adapter, sequence in found or () if sequence == 0}
    if found is None or not adapters:
        return found
    theirs = _at_most(tx, rows_of(versions, tenant).where(versions.c.adapter.in_(adapters)))
    return None if theirs is None else {key for key in found | theirs if key[2]}


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


def _few(tx: Transaction, tenant: str, filter: Filter) -> set[Key] | None:
    match filter:
        case Term():
            found = searched(filter.field).candidates(filter, tenant)
            return None if found is None else _at_most(tx, found)
        case And(items):
            few = next((few for item in items if (few := _few(tx, tenant, item)) is not None), None)
            return _together(tx, tenant, items) if few is None else few
        case Or(items):
            all_of_them: set[Key] = set()
            for item in items:
                if (few := _few(tx, tenant, item)) is None or len(all_of_them := all_of_them | few) > FEW:
                    return None
            return all_of_them
    return None


def _together(tx: Transaction, tenant: str, items: Iterable[Filter]) -> set[Key] | None:
    """What terms of which none finds few find together, where that is few."""
    terms = [item for item in items if isinstance(item, Term)]
    found = [found for term in terms if (found := searched(term.field).candidates(term, tenant)) is not None]
    some = [one for one in found if _count(tx, one.limit(SOME + 1)) <= SOME]
    if len(some) < 2:
        return None
    keys = set.intersection(*({(row.tenant, row.adapter, row.sequence) for row in tx.execute(one)} for one in some))
    return keys if len(keys) <= FEW else None


def _count(tx: Transaction, found: Candidates) -> int:
    return tx.execute(select(func.count()).select_from(found.subquery())).scalar_one()


def _at_most(tx: Transaction, found: Candidates) -> set[Key] | None:
    rows = tx.execute(found.limit(FEW + 1)).all()
    return {(row.tenant, row.adapter, row.sequence) for row in rows} if len(rows) <= FEW else None

"""Query: a filter and words to the condition that a search puts on versions, and to the few that it need look at.

NOTE: a search reads versions in the order it was asked for until a page is full, which is fast where many fit. Where
few do, it would read them all. So what an index can find is counted first, up to `FEW`; where there are no more of
it, only these are looked at, or, of terms that must all fit, what the rarest of them find together. No statistics are
needed for it, which SQLite has not and PostgreSQL has late.
"""

from __future__ import annotations

from operator import itemgetter

from sqlalchemy import and_, exists, func, not_, or_, select, true

from graftwork.db import Transaction
from graftwork.db.schema import texts, versions
from graftwork.registry.search.fields import searched
from graftwork.registry.search.filter import And, Filter, Not, Or, Term
from graftwork.registry.search.operators import has_words
from graftwork.registry.search.searched import Candidates, Clause, of, rows_of

FEW = 1500
#: So few that it does not pay to find out which of them other terms find as well.
LEAST = 300
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
    return None if filter is None or _size(tx, tenant, filter) > FEW else _few(tx, tenant, filter)


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


def _size(tx: Transaction, tenant: str, filter: Filter) -> int:
    """How many versions an index finds, so far as they are few; more than `FEW` where there is none for it."""
    match filter:
        case Term():
            found = searched(filter.field).candidates(filter, tenant)
            return FEW + 1 if found is None else _count(tx, found)
        case And(items):
            return min(_size(tx, tenant, item) for item in items)
        case Or(items):
            return sum(_size(tx, tenant, item) for item in items)
    return FEW + 1


def _few(tx: Transaction, tenant: str, filter: Filter) -> set[Key]:
    """What an index finds, of a filter of which that is few."""
    match filter:
        case Term():
            found = searched(filter.field).candidates(filter, tenant)
            assert found is not None, "it has a size"
            return _keys(tx, found)
        case And(items):
            sizes = [(_size(tx, tenant, item), item) for item in items]
            first, *others = (item for size, item in sorted(sizes, key=itemgetter(0)) if size <= FEW)
            few = _few(tx, tenant, first)
            for item in others:
                if len(few) <= LEAST:
                    break
                few &= _few(tx, tenant, item)
            return few
        case Or(items):
            return set().union(*(_few(tx, tenant, item) for item in items))
    raise AssertionError(f"{filter} has no size")


def _at_most(tx: Transaction, found: Candidates) -> set[Key] | None:
    """To find words costs more than to hand over what was found, so it is not done twice."""
    keys = _keys(tx, found.limit(FEW + 1))
    return keys if len(keys) <= FEW else None


def _count(tx: Transaction, found: Candidates) -> int:
    return tx.execute(select(func.count()).select_from(found.limit(FEW + 1).subquery())).scalar_one()


def _keys(tx: Transaction, found: Candidates) -> set[Key]:
    return {(row.tenant, row.adapter, row.sequence) for row in tx.execute(found)}

"""Usage: what each tenant used of each adapter on each day (UTC): sums that stay when their records go."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import BindParameter, and_, bindparam, or_, select, update

from graftwork.db import Database, Transaction
from graftwork.db.schema import usage_days
from graftwork.errors import InvalidRequest
from graftwork.registry.page import Page, check_page_size
from graftwork.traffic.records.record import Record

_SUMS = ("requests", "errors", "prompt_tokens", "output_tokens", "cached_tokens", "seconds")
_KEY = (usage_days.c.tenant, usage_days.c.day, usage_days.c.adapter)


def _more(name: str) -> BindParameter[Any]:
    return bindparam(f"more_{name}", type_=usage_days.c[name].type)


# NOTE: made once; a batch takes three statements, however many tenants it is of.
_FIND = select(*_KEY).where(and_(*(column.in_(bindparam(f"{column.name}s", expanding=True)) for column in _KEY)))
_ADD = (
    update(usage_days)
    .where(and_(*(column == bindparam(f"of_{column.name}") for column in _KEY)))
    .values({name: usage_days.c[name] + _more(name) for name in _SUMS})
)
_FIRST = (*(column.name for column in _KEY), *_SUMS)
_ADDED = (*(f"of_{column.name}" for column in _KEY), *(f"more_{name}" for name in _SUMS))


@dataclass(frozen=True)
class Usage:
    """One day of one adapter, or of the base under its name. Who was refused used nothing."""

    day: str  #: `2026-01-31`
    adapter: str
    requests: int
    errors: int  #: of these
    prompt_tokens: int
    output_tokens: int
    cached_tokens: int  #: of the prompts'
    seconds: float  #: from request to the end of the answer, added up

    def to_json(self) -> dict[str, Any]:
        return dict(self.__dict__)


def add(tx: Transaction, records: Iterable[Record]) -> None:
    """Count answers in. Writers take turns, so nobody else adds to the same row meanwhile."""
    sums: dict[tuple[str, str, str], list[float]] = defaultdict(lambda: [0] * len(_SUMS))
    for one in records:
        if one.adapter is not None and one.outcome != "refused":
            row = sums[one.tenant, one.at[:10], one.adapter]
            used = (1, one.outcome == "error", one.prompt_tokens, one.output_tokens, one.cached_tokens, one.latency_s)
            row[:] = map(sum, zip(row, used, strict=True))
    if not sums:
        return
    tenants, days, adapters = (list(set(part)) for part in zip(*sums, strict=True))
    there = {tuple(row) for row in tx.execute(_FIND, {"tenants": tenants, "days": days, "adapters": adapters})}
    more = [dict(zip(_ADDED, (*key, *row), strict=True)) for key, row in sums.items() if key in there]
    first = [dict(zip(_FIRST, (*key, *row), strict=True)) for key, row in sums.items() if key not in there]
    if more:
        tx.execute(_ADD, more)
    if first:
        tx.execute(usage_days.insert(), first)


class UsageReport:
    """For use from any thread."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def page(
        self,
        tenant: str,
        *,
        adapter: str | None = None,
        since: str | None = None,
        until: str | None = None,
        page_size: int = 100,
        page_token: str = "",
    ) -> Page[Usage]:
        """Rows by day and adapter, from the day `since` to before the day `until`.

        Raises:
            InvalidRequest: the token is not one that this list gave out.
        """
        check_page_size(page_size)
        own = [usage_days.c.tenant == tenant]
        if adapter is not None:
            own.append(usage_days.c.adapter == adapter)
        if since is not None:
            own.append(usage_days.c.day >= since)
        if until is not None:
            own.append(usage_days.c.day < until)
        if page_token:
            day, cut, name = page_token.partition("~")
            if not cut or not name:
                raise InvalidRequest("page_token is not one that a list gave out.", field="page_token")
            own.append(or_(usage_days.c.day > day, and_(usage_days.c.day == day, usage_days.c.adapter > name)))
        columns = (usage_days.c.day, usage_days.c.adapter, *(usage_days.c[name] for name in _SUMS))
        query = select(*columns).where(*own).order_by(usage_days.c.day, usage_days.c.adapter).limit(page_size + 1)
        with self._database.reading() as tx:
            rows = [Usage(**row._mapping) for row in tx.execute(query)]
        more = len(rows) > page_size
        return Page(
            tuple(rows[:page_size]), f"{rows[page_size - 1].day}~{rows[page_size - 1].adapter}" if more else None
        )

"""Searches: finds versions by a filter and by words, page by page."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from graftwork.db import Database, Transaction
from graftwork.db.index_terms import MAX_WORD, VERSION, folded
from graftwork.errors import InvalidRequest
from graftwork.registry.aliases import aliases_of
from graftwork.registry.page import Page, check_page_size
from graftwork.registry.rules.standing import standings_at
from graftwork.registry.search.filter import Mistake
from graftwork.registry.search.parser import parse_filter
from graftwork.registry.search.query import Words, condition, few_of, few_with
from graftwork.registry.search.searched import Wrong
from graftwork.registry.search.sorting import DEFAULT, name_of, parse_sort
from graftwork.registry.tags import tags_of
from graftwork.registry.versions import Version, counts, versions_at

DEFAULT_PAGE = 50
MAX_TEXT = 512  # characters
MAX_WORDS = 16
_WORD = re.compile(r"([^\W_]+)(\*?)")


@dataclass(frozen=True)
class Found:
    """A version that fits, without metadata and account."""

    version: Version
    newest: bool  #: of its adapter
    tags: dict[str, str]  #: its own over its adapter's
    value: str | float | None  #: what it was sorted by

    def to_json(self) -> dict[str, Any]:
        return {**self.version.to_json(), "newest": self.newest, "tags": self.tags, "value": self.value}


class Searches:
    """Reads one database; a tenant finds what is his own, whatever he asks."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def find(
        self,
        tenant: str,
        filter: str = "",
        *,
        text: str = "",
        sort: str = DEFAULT,
        page_size: int = DEFAULT_PAGE,
        page_token: str | None = None,
    ) -> Page[Found]:
        """Versions that fit the filter and that, or whose adapter, has all words of `text`.

        Args:
            filter: as docs/reference/search.md says; empty for all.
            text: words, without order, case and accents; `word*` is the beginning of one.
            sort: `created_at`, `name`, `version`, `rank`, `bytes` or `metrics.NAME`, and `asc` or `desc`. By a metric,
                only versions that have it are found.

        Raises:
            InvalidRequest: showing what cannot be read, and where; or the token is another search's.
        """
        check_page_size(page_size)
        wanted, words, order = parse_filter(filter), parse_words(text), parse_sort(sort)
        query = name_of(tenant, filter, text, sort)
        last = order.read(query, page_token) if page_token else None
        with self._database.reading() as tx:
            few = few_with(tx, tenant, words)
            try:
                asked = condition(wanted, words if few is None else [])
            except Wrong as wrong:
                raise Mistake(filter, wrong.at, wrong.message) from wrong
            few = few_of(tx, tenant, wanted) if few is None else few
            rows = (
                tx.execute(order.rows(tenant, few, last).where(asked).limit(page_size + 1)).all()
                if few != set()
                else []
            )
            found = _found(tx, tenant, rows[:page_size])
        if order.field == VERSION:  # whose key says nothing to people
            found = tuple(replace(one, value=one.version.semver) for one in found)
        return Page(found, order.token(query, rows[page_size - 1]) if len(rows) > page_size else None)


def parse_words(text: str) -> Words:
    """The words of a text, each with whether it is the beginning of one; none of an empty text.

    Raises:
        InvalidRequest: there is no word in it, or too many.
    """
    if not text:
        return []
    found = dict.fromkeys((word[1][:MAX_WORD], bool(word[2])) for word in _WORD.finditer(folded(text[:MAX_TEXT])))
    if len(text) > MAX_TEXT or not 0 < len(found) <= MAX_WORDS:
        raise InvalidRequest(f"text must be 1 to {MAX_WORDS} words, {MAX_TEXT} characters at most.", field="text")
    return list(found)


def _found(tx: Transaction, tenant: str, rows: Iterable[Any]) -> tuple[Found, ...]:
    values = {(row.adapter, row.sequence): row.value for row in rows}
    names = sorted({name for name, _ in values})
    at = {(version.adapter, version.sequence): version for version in versions_at(tx, tenant, values)}
    pointers, counted = aliases_of(tx, tenant, names), counts(tx, tenant, names)
    standings = standings_at(tx, tenant, values)
    tags = tags_of(tx, tenant, [*values, *((name, 0) for name in names)])

    def found(name: str, sequence: int) -> Found:
        aliases = [alias for alias, target in pointers.get(name, {}).items() if target == sequence]
        return Found(
            version=standings.of(tenant, name).of(at[name, sequence].with_aliases(aliases)),
            newest=counted[name][1] == sequence,
            tags={**tags.get((name, 0), {}), **tags.get((name, sequence), {})},
            value=values[name, sequence],
        )

    return tuple(found(*key) for key in values)

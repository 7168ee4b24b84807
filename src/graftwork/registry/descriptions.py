"""Descriptions: what an adapter is called and what it is for, in people's words; may change at any time."""

from __future__ import annotations

from typing import Final

from sqlalchemy import select, update

from graftwork.access import events
from graftwork.access.clock import Clock, timestamp, utc_now
from graftwork.db import Database
from graftwork.db.index_terms import words_of
from graftwork.db.schema import adapters
from graftwork.errors import InvalidRequest
from graftwork.registry.reading import check_adapter
from graftwork.registry.search.indexing import set_words
from graftwork.registry.subjects import subject_of

DESCRIBED: Final = "adapter.described"
MAX_DISPLAY_NAME = 256  # characters
MAX_DESCRIPTION = 16_384


class Descriptions:
    """Changes the display names and descriptions of adapters; lists and searches show and find them."""

    def __init__(self, database: Database, clock: Clock = utc_now) -> None:
        self._database = database
        self._clock = clock

    def set(
        self,
        tenant: str,
        name: str,
        *,
        display_name: str | None = None,
        description: str | None = None,
        actor: str,
    ) -> dict[str, str]:
        """Change what is given, empty texts to nothing; no event when all is so already.

        Raises:
            InvalidRequest: too long, or with control characters other than the description's line breaks.
            NotFound: there is no such adapter.
        """
        given = {"display_name": display_name, "description": description}
        wanted = {key: value for key, value in given.items() if value is not None}
        for key, most in (("display_name", MAX_DISPLAY_NAME), ("description", MAX_DESCRIPTION)):
            _check(key, wanted.get(key, ""), most)
        own = (adapters.c.tenant == tenant, adapters.c.name == name)
        with self._database.transaction() as tx:
            check_adapter(tx, tenant, name)
            row = tx.execute(select(adapters.c.display_name, adapters.c.description).where(*own)).one()
            before, after = dict(row._mapping), {**row._mapping, **wanted}
            if after != before:
                tx.execute(update(adapters).where(*own).values(after))
                set_words(tx, tenant, name, 0, words_of(name, *after.values()))
                payload = {"from": before, "to": after}
                events.append(tx, tenant, actor, DESCRIBED, subject_of(name), payload, at=timestamp(self._clock()))
        return {"name": name, **after}


def _check(key: str, text: str, most: int) -> None:
    plain = text.replace("\n", "").replace("\t", "") if key == "description" else text
    if len(text) > most or not plain.isprintable():
        raise InvalidRequest(f"{key} must be at most {most} characters, without control characters.", field=key)

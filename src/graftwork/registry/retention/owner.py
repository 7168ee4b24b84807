"""Owner: a store belongs to one database: the store notes one of its events, and who collects has to know that event.

The first push notes its own, a restoration the last one that it brings, whose tenant it may not be, and each collection
its own in place of it. So another database, an empty one, or one that was restored to before the last collection
removes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from sqlalchemy import select

from graftwork.artifacts.digest import check_digest
from graftwork.artifacts.stores import BlobStore
from graftwork.db import Database
from graftwork.db.schema import events
from graftwork.errors import Conflict, InvalidRequest, Unavailable


def claim(store: BlobStore, tenant: str, event: Callable[[], str]) -> None:
    """Note the hash of an event where there is no note; where the store does not answer now, the next one does it."""
    with suppress(Unavailable):
        if store.note(tenant) is None:
            store.set_note(tenant, event())


def check_owner(database: Database, store: BlobStore, tenant: str) -> None:
    """Return when this database may collect what the store has of a tenant.

    Raises:
        Conflict: the store is another's.
    """
    noted = store.note(tenant)
    if noted is None:
        return
    if not _knows(database, noted):
        raise Conflict(
            f"What the store has of {tenant} belongs to another database, or to a later state of this one, and would "
            "be lost: check GRAFTWORK_HOME, GRAFTWORK_DATABASE_URL and GRAFTWORK_ARTIFACTS_URL. If that is meant, "
            f"first remove {tenant}/note from the store."
        )


def _knows(database: Database, noted: str) -> bool:
    try:
        check_digest(noted)  # a damaged note may be no text that a database takes
    except InvalidRequest:
        return False
    with database.reading() as tx:
        return tx.execute(select(events.c.position).where(events.c.hash == noted)).first() is not None

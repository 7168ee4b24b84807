"""Owner: a store belongs to one database: the store notes one of its events, and who collects has to know that event.

The first push notes its own, and each collection its own in place of it. So another database, an empty one, or one that
was restored to before the last collection removes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from sqlalchemy import select

from graftwork.artifacts.stores import BlobStore
from graftwork.db import Database
from graftwork.db.schema import events
from graftwork.errors import Conflict, Unavailable


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
    with database.reading() as tx:
        if tx.execute(select(events.c.position).where(events.c.hash == noted)).first() is None:
            raise Conflict(
                f"What the store has of {tenant} belongs to another database, or to a later state of this one, and "
                "would be lost: check GRAFTWORK_HOME, GRAFTWORK_DATABASE_URL and GRAFTWORK_ARTIFACTS_URL. If that is "
                f"meant, first remove {tenant}/note from the store."
            )

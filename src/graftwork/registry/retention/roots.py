"""Roots: which blobs of a tenant somebody wants; every table that speaks of blobs has a function in the list."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator

from sqlalchemy import select

from graftwork.access.events import read_events
from graftwork.db import Transaction
from graftwork.db.canonical import parse
from graftwork.db.schema import versions
from graftwork.registry.registration import CREATED
from graftwork.registry.versions import LIVE

#: Adapter and sequence number of versions.
Numbers = Container[tuple[str, int]]
#: Digests that rows written after a position of the log speak of, or after 0 all rows, but for rows of these versions.
Root = Callable[[Transaction, str, int, Numbers], Iterable[str]]


def blobs_of_versions(tx: Transaction, tenant: str, after: int, but: Numbers) -> Iterator[str]:
    query = select(versions.c.adapter, versions.c.sequence, versions.c.manifest).where(
        versions.c.tenant == tenant, LIVE
    )
    if after:
        new = {event.payload["digest"] for event in read_events(tx, tenant, after=after) if event.kind == CREATED}
        query = query.where(versions.c.digest.in_(new))
    for row in tx.execute(query):
        if (row.adapter, row.sequence) not in but:
            yield from (file["digest"] for file in parse(row.manifest)["files"])


#: A table of blobs that is not here loses them. Whoever writes its rows looks at the blobs again, as pushes do:
#: `collection.collected_since`.
ROOTS: tuple[Root, ...] = (blobs_of_versions,)


def wanted(tx: Transaction, tenant: str, *, after: int = 0, but: Numbers = ()) -> set[str]:
    """The digests of all blobs that somebody wants, or that somebody wants since a position of the log.

    Args:
        but: versions that count as deleted already.
    """
    return {digest for root in ROOTS for digest in root(tx, tenant, after, but)}

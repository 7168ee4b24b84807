"""Roots: which blobs of a tenant somebody wants; every table that speaks of blobs has a function in the list."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator

from sqlalchemy import select

from graftwork.access.events import read_events
from graftwork.db import Transaction
from graftwork.db.schema import versions
from graftwork.protocol.canonical import parse
from graftwork.registry.bases import stored_manifests
from graftwork.registry.documents.rows import held as held_by_documents
from graftwork.registry.evaluations.rows import held as held_by_evaluations
from graftwork.registry.registration import CREATED
from graftwork.registry.signatures import held as held_by_signatures
from graftwork.registry.versions import LIVE, named_versions

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


def blobs_of_documents(tx: Transaction, tenant: str, _after: int, but: Numbers) -> Iterator[str]:
    yield from _of_live(tx, tenant, held_by_documents(tx, tenant), but)


def blobs_of_signatures(tx: Transaction, tenant: str, _after: int, but: Numbers) -> Iterator[str]:
    yield from _of_live(tx, tenant, held_by_signatures(tx, tenant), but)


def blobs_of_evaluations(tx: Transaction, tenant: str, _after: int, but: Numbers) -> Iterator[str]:
    yield from _of_live(tx, tenant, held_by_evaluations(tx, tenant), but)


def blobs_of_bases(tx: Transaction, tenant: str, _after: int, _but: Numbers) -> Iterator[str]:
    yield from (file.digest for manifest in stored_manifests(tx, tenant) for file in manifest.files)


def _of_live(tx: Transaction, tenant: str, held: Iterable[tuple[str, int, str]], but: Numbers) -> Iterator[str]:
    """Digests of what is held for versions that are there; the rows that say so outlive a version."""
    live = {(one.adapter, one.sequence) for one in named_versions(tx, tenant)}
    for adapter, sequence, digest in held:
        if (adapter, sequence) in live and (adapter, sequence) not in but:
            yield digest


#: A table of blobs that is not here loses them. Whoever writes its rows looks at the blobs again in the
#: transaction, as pushes do: see `collection.py`.
ROOTS: tuple[Root, ...] = (
    blobs_of_versions,
    blobs_of_documents,
    blobs_of_signatures,
    blobs_of_evaluations,
    blobs_of_bases,
)


def wanted(tx: Transaction, tenant: str, *, after: int = 0, but: Numbers = ()) -> set[str]:
    """The digests of all blobs that somebody wants, or that somebody wants since a position of the log.

    Args:
        but: versions that count as deleted already.
    """
    return {digest for root in ROOTS for digest in root(tx, tenant, after, but)}

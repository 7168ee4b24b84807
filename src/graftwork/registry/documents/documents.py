"""Documents: companions that are added to a version after its push, beside those that lay in its bundle.

A document changes nothing of what is served: the version's digest is its identity, and it is over the bundle alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from graftwork.access import events
from graftwork.access.clock import Clock, timestamp, utc_now
from graftwork.artifacts.stores import BlobStore
from graftwork.db import Database, Transaction
from graftwork.errors import Conflict, InvalidRequest, NotFound
from graftwork.registry import idempotency
from graftwork.registry.documents import rows
from graftwork.registry.documents.document import (
    KINDS,
    MAX_CARD_BYTES,
    Content,
    Document,
    bundled,
    check_content,
)
from graftwork.registry.documents.front_matter import read_card
from graftwork.registry.idempotency import Once
from graftwork.registry.page import Page, check_page_size
from graftwork.registry.reference import Reference
from graftwork.registry.resolving import resolve, still
from graftwork.registry.subjects import subject_of
from graftwork.registry.versions import Version

ADDED = "document.added"
MAX_DOCUMENTS = 1000
_ID = re.compile(r"(bundle-)?([1-9][0-9]{0,8})", re.ASCII)


class Documents:
    """Reads and adds documents; raises as `Registry` does for references, names and a database that is busy."""

    def __init__(self, database: Database, store: BlobStore, clock: Clock = utc_now) -> None:
        self._database = database
        self._store = store
        self._clock = clock

    def add(
        self, tenant: str, reference: Reference | str, content: Content, *, actor: str, once: Once | None = None
    ) -> tuple[Document, bool]:
        """Record a document whose bytes are stored; True when it is new.

        Another one of the same kind and name is superseded and can still be read. The same content as its last
        revision is that revision.

        Raises:
            InvalidRequest: the content is not allowed, or a model card cannot be read.
            Conflict: its bytes are not stored (upload them first), or the version has too many.
        """
        check_content(content)
        with self._database.reading() as tx:
            version = resolve(tx, tenant, reference)
        self._check_stored(tenant, content)
        if content.kind == "model_card":
            read_card(b"".join(self._store.open(tenant, content.digest)))
        with self._database.transaction() as tx:
            version = still(tx, version)
            self._check_stored(tenant, content)  # again: here no collection can run beside
            number, created = idempotency.numbered(
                tx, version, once, lambda: self._add(tx, version, content, actor), now=self._clock()
            )
            return self._at(tx, version, str(number)), created

    def page(
        self,
        tenant: str,
        reference: Reference | str,
        *,
        kind: str | None = None,
        superseded: bool = False,
        page_size: int = 100,
        page_token: str | None = None,
    ) -> Page[Document]:
        """A version's documents, those of its bundle first, then the others in the order they were added."""
        check_page_size(page_size)
        if kind is not None and kind not in KINDS:
            raise InvalidRequest(f"The kind {kind[:80]!a} is none of {', '.join(KINDS)}.", field="kind")
        token = _ID.fullmatch(page_token or "bundle-1")
        if token is None:
            raise InvalidRequest("page_token is not one that a list gave out.", field="page_token")
        of_bundle, number = token[1] is not None, int(token[2]) if page_token else 0
        with self._database.reading() as tx:
            version = resolve(tx, tenant, reference)
            wanted = page_size + 1
            found = list(islice(_of_bundle(version, number, kind), wanted)) if of_bundle else []
            last = 0 if of_bundle else number
            found += rows.after(tx, version, last, kind=kind, superseded=superseded, limit=wanted - len(found))
        more = len(found) > page_size
        return Page(tuple(found[:page_size]), found[page_size - 1].id if more else None)

    def show(self, tenant: str, reference: Reference | str, document: str) -> Document:
        """The document with that id.

        Raises:
            NotFound: the version has none.
        """
        with self._database.reading() as tx:
            return self._at(tx, resolve(tx, tenant, reference), document)

    @staticmethod
    def written_card(tx: Transaction, version: Version) -> Document | None:
        """The model card that people wrote: the last one added, else the bundle's own, else none."""
        added = rows.after(tx, version, 0, kind="model_card", superseded=False, limit=MAX_DOCUMENTS)
        found = added[-1] if added else next(_of_bundle(version, 0, "model_card"), None)
        return found if found is not None and found.content.size <= MAX_CARD_BYTES else None

    def content(self, tenant: str, document: Document) -> Iterator[bytes]:
        """The document's bytes, verified as `BlobStore.open` does."""
        return self._store.open(tenant, document.content.digest)

    def _add(self, tx: Transaction, version: Version, content: Content, actor: str) -> tuple[int, bool]:
        before = rows.current(tx, version, content.kind, content.name)
        if before is not None and before.content == content:
            return int(before.id), False
        number = rows.count(tx, version) + 1
        if number > MAX_DOCUMENTS:
            raise Conflict(f"{version.label} has {MAX_DOCUMENTS} documents, the most that a version may have.")
        revision, now = before.revision + 1 if before else 1, timestamp(self._clock())
        rows.insert(tx, version, content, number=number, revision=revision, at=now, by=actor)
        told = {**version.brief(), "document": number, "revision": revision, **content.__dict__}
        events.append(tx, version.tenant, actor, ADDED, subject_of(version.adapter), told, at=now)
        return number, True

    def _check_stored(self, tenant: str, content: Content) -> None:
        stored = self._store.has(tenant, content.digest)
        if stored != content.size:
            why = "it is not stored" if stored is None else f"it is stored with {stored} bytes, not {content.size}"
            raise Conflict(f"Upload the bytes of {content.name} first, then add it: {content.digest}: {why}.")

    @staticmethod
    def _at(tx: Transaction, version: Version, document: str) -> Document:
        found, asked = None, _ID.fullmatch(document)
        if asked is not None and asked[1] is None:
            found = rows.at(tx, version, int(asked[2]))
        elif asked is not None:
            found = next((one for one in _of_bundle(version, int(asked[2]) - 1, None) if one.id == document), None)
        if found is None:
            raise NotFound(f"{version.label} has no document {document[:40]!a}.")
        return found


def _of_bundle(version: Version, after: int, kind: str | None) -> Iterator[Document]:
    """Companions among the files of the version's bundle, from the file after number `after`."""
    for number, file in enumerate(version.manifest.files[after:], start=after + 1):
        content = bundled(file)
        if content is not None and kind in (None, content.kind):
            yield Document(f"bundle-{number}", "bundle", content, 1, False, version.created_at, version.created_by)

"""Rows: the SQL of documents; they are only ever added to."""

from __future__ import annotations

from sqlalchemy import ColumnElement, Select, and_, exists, func, select

from graftwork.db import Transaction
from graftwork.db.schema import documents
from graftwork.registry.documents.document import Content, Document
from graftwork.registry.versions import Version


def after(
    tx: Transaction, version: Version, number: int, *, kind: str | None, superseded: bool, limit: int
) -> list[Document]:
    """Documents of a version from the one after `number`, superseded ones where they are wanted."""
    query = _documents().where(_of(version), documents.c.number > number)
    if kind is not None:
        query = query.where(documents.c.kind == kind)
    if not superseded:
        query = query.where(~_LATER)
    rows = tx.execute(query.order_by(documents.c.number).limit(limit))
    return [Document.from_row(row) for row in rows]


def at(tx: Transaction, version: Version, number: int) -> Document | None:
    row = tx.execute(_documents().where(_of(version), documents.c.number == number)).first()
    return None if row is None else Document.from_row(row)


def current(tx: Transaction, version: Version, kind: str, name: str) -> Document | None:
    """The last revision of a kind and name."""
    query = _documents().where(_of(version), documents.c.kind == kind, documents.c.name == name, ~_LATER)
    row = tx.execute(query).first()
    return None if row is None else Document.from_row(row)


def count(tx: Transaction, version: Version) -> int:
    """How many there are, which is the number of the last."""
    query = select(func.coalesce(func.max(documents.c.number), 0)).where(_of(version))
    return int(tx.execute(query).scalar_one())


def insert(
    tx: Transaction, version: Version, content: Content, *, number: int, revision: int, at: str, by: str
) -> None:
    row = {
        **{"tenant": version.tenant, "adapter": version.adapter, "sequence": version.sequence},
        **content.__dict__,
        **{"number": number, "revision": revision, "created_at": at, "created_by": by},
    }
    tx.execute(documents.insert().values(row))


def held(tx: Transaction, tenant: str) -> set[tuple[str, int, str]]:
    """(adapter, sequence, digest) of every blob that a document of the tenant's versions stands for."""
    query = select(documents.c.adapter, documents.c.sequence, documents.c.digest).where(documents.c.tenant == tenant)
    return {(row.adapter, row.sequence, row.digest) for row in tx.execute(query)}


_later = documents.alias("later")
_KEY = ("tenant", "adapter", "sequence", "kind", "name")
_LATER = exists().where(
    *(_later.c[column] == documents.c[column] for column in _KEY), _later.c.revision > documents.c.revision
)


def _documents() -> Select[tuple[object, ...]]:
    return select(documents, _LATER.label("superseded"))


def _of(version: Version) -> ColumnElement[bool]:
    return and_(
        documents.c.tenant == version.tenant,
        documents.c.adapter == version.adapter,
        documents.c.sequence == version.sequence,
    )

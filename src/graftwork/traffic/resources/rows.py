"""Rows: the SQL of resources: revisions that never change, and a pointer by name that moves by compare-and-swap."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from sqlalchemy import BindParameter, Row, Select, and_, bindparam, delete, func, or_, select, update

from graftwork.db import Transaction
from graftwork.db.schema import resource_revisions, resources
from graftwork.errors import PreconditionFailed
from graftwork.traffic.resources.kind import Kind
from graftwork.traffic.resources.resource import Made, Revision, Spec

_OF_NAME = and_(
    resource_revisions.c.kind == resources.c.kind,
    resource_revisions.c.tenant == resources.c.tenant,
    resource_revisions.c.name == resources.c.name,
)
_LIVE = and_(_OF_NAME, resource_revisions.c.number == resources.c.revision)
_COLUMNS = (resource_revisions, resources.c.updated_at, resources.c.updated_by)
_KIND: BindParameter[str] = bindparam("of_kind")
_TENANT: BindParameter[str] = bindparam("of_tenant")
_NAME: BindParameter[str] = bindparam("of_name")
_OWN = and_(resources.c.kind == _KIND, resources.c.tenant == _TENANT, resources.c.name == _NAME)
_EVERY = and_(
    resource_revisions.c.kind == _KIND, resource_revisions.c.tenant == _TENANT, resource_revisions.c.name == _NAME
)
# NOTE: what each change asks is made once: making a statement takes longer than what it asks for.
_FIND_LIVE = select(*_COLUMNS).join(resources, _LIVE).where(_OWN)
_COUNT_LIVE = (
    select(func.count()).select_from(resources).where(resources.c.kind == _KIND, resources.c.tenant == _TENANT)
)
_NEWEST = select(func.coalesce(func.max(resource_revisions.c.number), 0)).where(_EVERY)
_INSERT_REVISION, _INSERT_POINTER = resource_revisions.insert(), resources.insert()
_AT = resources.c.revision == bindparam("before")
_UPDATE_POINTER = (
    update(resources)
    .where(_OWN, _AT)
    .values(revision=bindparam("after"), updated_at=bindparam("at"), updated_by=bindparam("by"))
)
_DELETE_POINTER = delete(resources).where(_OWN, _AT)


def all_live(tx: Transaction, kind: Kind[Spec, Made]) -> Iterator[Made]:
    """Of every tenant."""
    return _made_of(tx, kind, _live(kind))


def live_of(tx: Transaction, kind: Kind[Spec, Made], keys: Iterable[tuple[str, str]]) -> Iterator[Made]:
    """Those of these names, by (tenant, name), that mean something."""
    named = or_(*(and_(resources.c.tenant == tenant, resources.c.name == name) for tenant, name in keys))
    return _made_of(tx, kind, _live(kind).where(named))


def find_live(tx: Transaction, kind: Kind[Spec, Made], tenant: str, name: str) -> Made | None:
    found = tx.execute(_FIND_LIVE, _key(kind, tenant, name)).first()
    return None if found is None else _made(kind, found)


def live_by_name(
    tx: Transaction, kind: Kind[Spec, Made], tenant: str, *, after: str = "", limit: int | None = None
) -> list[Made]:
    """A tenant's, from the first one after `after`."""
    query = _live(kind).where(resources.c.tenant == tenant, resources.c.name > after)
    return list(_made_of(tx, kind, query.order_by(resources.c.name).limit(limit)))


def count_live(tx: Transaction, kind: Kind[Any, Any], tenant: str) -> int:
    return int(tx.execute(_COUNT_LIVE, {"of_kind": kind.word, "of_tenant": tenant}).scalar_one())


def revisions_of(
    tx: Transaction, kind: Kind[Spec, Made], tenant: str, name: str, *, before: int | None = None, limit: int
) -> list[Made]:
    """The newest first, from the first one before `before`."""
    query = select(*_COLUMNS).outerjoin(resources, _LIVE).where(_EVERY).params(_key(kind, tenant, name))
    if before is not None:
        query = query.where(resource_revisions.c.number < before)
    return list(_made_of(tx, kind, query.order_by(resource_revisions.c.number.desc()).limit(limit)))


def revision_at(tx: Transaction, kind: Kind[Spec, Made], tenant: str, name: str, number: int) -> Made | None:
    found = revisions_of(tx, kind, tenant, name, before=number + 1, limit=1)
    return found[0] if found and found[0].revision.number == number else None


def insert_revision(
    tx: Transaction,
    kind: Kind[Any, Any],
    tenant: str,
    name: str,
    *,
    text: str,
    digest: str,
    at: str,
    actor: str,
    reason: str | None,
) -> Revision:
    """Add what the name comes to mean; numbers go on from the newest that it ever had."""
    newest = int(tx.execute(_NEWEST, _key(kind, tenant, name)).scalar_one())
    made = Revision(newest + 1, digest, at, actor, reason)
    key = {"kind": kind.word, "tenant": tenant, "name": name}
    tx.execute(_INSERT_REVISION, {**key, **vars(made), "spec": text})
    return made


def point(
    tx: Transaction,
    kind: Kind[Any, Any],
    tenant: str,
    name: str,
    *,
    before: int | None,
    after: int | None,
    at: str,
    actor: str,
) -> None:
    """Move the pointer from one revision to another; None is nothing.

    Raises:
        PreconditionFailed: it is no longer at `before`.
    """
    if before is None:
        key = {"kind": kind.word, "tenant": tenant, "name": name}
        tx.execute(_INSERT_POINTER, {**key, "revision": after, "updated_at": at, "updated_by": actor})
        return
    asked = {**_key(kind, tenant, name), "before": before}
    if after is None:
        moved = tx.execute(_DELETE_POINTER, asked)
    else:
        moved = tx.execute(_UPDATE_POINTER, {**asked, "after": after, "at": at, "by": actor})
    if moved.rowcount != 1:
        raise PreconditionFailed(f"The {kind.noun} {name} moved meanwhile; look again.")


def _live(kind: Kind[Any, Any]) -> Select[Any]:
    return select(*_COLUMNS).join(resources, _LIVE).where(resources.c.kind == kind.word)


def _key(kind: Kind[Any, Any], tenant: str, name: str) -> dict[str, str]:
    return {"of_kind": kind.word, "of_tenant": tenant, "of_name": name}


def _made_of(tx: Transaction, kind: Kind[Spec, Made], query: Select[Any]) -> Iterator[Made]:
    return (_made(kind, row) for row in tx.execute(query))


def _made(kind: Kind[Spec, Made], row: Row[Any]) -> Made:
    revision = Revision(row.number, row.digest, row.created_at, row.created_by, row.reason)
    spec = kind.spec.model_validate_json(row.spec)
    return kind.made(row.tenant, row.name, revision, spec, row.updated_at, row.updated_by)

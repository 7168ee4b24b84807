"""Rows: the SQL of routes: revisions that never change, and a pointer that moves by compare-and-swap."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, and_, delete, func, select, update

from graftwork.db import Transaction
from graftwork.db.schema import route_revisions, routes
from graftwork.errors import PreconditionFailed
from graftwork.protocol.routes import RouteSpec
from graftwork.traffic.routes.route import Revision, Route

_OF_ROUTE = and_(route_revisions.c.tenant == routes.c.tenant, route_revisions.c.route == routes.c.name)
_LIVE = and_(_OF_ROUTE, route_revisions.c.number == routes.c.revision)


def live_routes(tx: Transaction, where: ColumnElement[bool] | None = None) -> Iterator[Route]:
    """The live revision of every route that there is."""
    query = _live() if where is None else _live().where(where)
    return (_route(row) for row in tx.execute(query))


def live_route(tx: Transaction, tenant: str, name: str) -> Route | None:
    return next(live_routes(tx, and_(routes.c.tenant == tenant, routes.c.name == name)), None)


def some_routes(tx: Transaction, tenant: str, *, after: str, limit: int) -> list[Route]:
    """A tenant's routes by name, from the first one after `after`."""
    query = _live().where(routes.c.tenant == tenant, routes.c.name > after)
    return [_route(row) for row in tx.execute(query.order_by(routes.c.name).limit(limit))]


def some_revisions(tx: Transaction, tenant: str, name: str, *, before: int | None, limit: int) -> list[Route]:
    """A route's revisions, the newest first, from the first one before `before`."""
    query = select(route_revisions).where(route_revisions.c.tenant == tenant, route_revisions.c.route == name)
    if before is not None:
        query = query.where(route_revisions.c.number < before)
    return [_route(row) for row in tx.execute(query.order_by(route_revisions.c.number.desc()).limit(limit))]


def revision_at(tx: Transaction, tenant: str, name: str, number: int) -> Route | None:
    found = some_revisions(tx, tenant, name, before=number + 1, limit=1)
    return found[0] if found and found[0].revision.number == number else None


def last_number(tx: Transaction, tenant: str, name: str) -> int:
    """Of the newest revision that a route of this name ever had; 0 where there was none."""
    own = and_(route_revisions.c.tenant == tenant, route_revisions.c.route == name)
    return int(tx.execute(select(func.coalesce(func.max(route_revisions.c.number), 0)).where(own)).scalar_one())


def insert_revision(tx: Transaction, route: Route, spec: str) -> None:
    """Add a revision, whose canonical spec is `spec`."""
    made = route.revision
    row = {
        "tenant": route.tenant,
        "route": route.name,
        "number": made.number,
        "digest": made.digest,
        "spec": spec,
        "reason": made.reason,
        "created_at": made.created_at,
        "created_by": made.created_by,
    }
    tx.execute(route_revisions.insert().values(row))


def point(
    tx: Transaction, tenant: str, name: str, *, before: int | None, after: int | None, at: str, actor: str
) -> None:
    """Move the pointer from one revision to another; None is no route.

    Raises:
        PreconditionFailed: it is no longer at `before`.
    """
    stamp = {"updated_at": at, "updated_by": actor}
    if before is None:
        tx.execute(routes.insert().values(tenant=tenant, name=name, revision=after, **stamp))
        return
    where = and_(routes.c.tenant == tenant, routes.c.name == name, routes.c.revision == before)
    change = delete(routes) if after is None else update(routes).values(revision=after, **stamp)
    if tx.execute(change.where(where)).rowcount != 1:
        raise PreconditionFailed(f"The route {name} moved meanwhile; look again.")


def _live() -> Select[Any]:
    return select(route_revisions).join(routes, _LIVE)


def _route(row: Row[Any]) -> Route:
    made = Revision(row.number, row.digest, row.created_at, row.created_by, row.reason)
    return Route(row.tenant, row.route, made, RouteSpec.model_validate_json(row.spec))

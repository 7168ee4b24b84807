"""Routes: sets, rolls back, removes and shows the routes of one database."""

from __future__ import annotations

from graftwork.access import events
from graftwork.access.clock import Clock, timestamp, utc_now
from graftwork.db import Database, Transaction
from graftwork.db.canonical import sha256
from graftwork.errors import Conflict, InvalidRequest, NotFound, PreconditionFailed
from graftwork.protocol.routes import RouteSpec
from graftwork.registry.bases import has_name
from graftwork.registry.idempotency import Once, keep, recall
from graftwork.registry.page import Page, check_page_size
from graftwork.registry.pointers import ABSENT, PRESENT
from graftwork.traffic.routes import rows
from graftwork.traffic.routes.checks import check_route_name, checked
from graftwork.traffic.routes.route import Revision, Route
from graftwork.traffic.routes.subjects import (
    ROUTE_REMOVED,
    ROUTE_ROLLED_BACK,
    ROUTE_SET,
    live_trail,
    subject_of_route,
)


class Routes:
    """Each change is a revision that is there for good, a move of the live pointer, and an event, in one transaction.

    `expected` is the digest of the revision that must be live, ABSENT, PRESENT or None; else PreconditionFailed.
    """

    def __init__(self, database: Database, base: str, clock: Clock = utc_now) -> None:
        """`base` is the name of the base that is served, which no route may have."""
        self._database, self._base, self._clock = database, base, clock

    def set(
        self,
        tenant: str,
        name: str,
        spec: RouteSpec,
        *,
        expected: str | None = None,
        actor: str,
        reason: str | None = None,
    ) -> tuple[Route, bool]:
        """Make a spec the live revision; True where the route is new. The spec that is live already changes nothing.

        Raises:
            InvalidRequest: the name. InvalidResource: the spec.
            Conflict: a base model has the name.
        """
        check_route_name(name)
        text = checked(spec)
        digest = sha256(text)
        with self._database.transaction() as tx:
            before = self._expected(tx, tenant, name, expected)
            if before is not None and before.revision.digest == digest:
                return before, False
            if name == self._base or has_name(tx, tenant, name):
                raise Conflict(f"{name} is the name of a base model; give the route another one.")
            now = timestamp(self._clock())
            made = Revision(rows.last_number(tx, tenant, name) + 1, digest, now, actor, reason)
            route = Route(tenant, name, made, spec)
            rows.insert_revision(tx, route, text)
            move(tx, ROUTE_SET, (tenant, name), before, route, actor=actor, reason=reason, at=now)
            return route, before is None

    def rollback(
        self,
        tenant: str,
        name: str,
        *,
        revision: int | None = None,
        expected: str | None = None,
        actor: str,
        reason: str | None = None,
        once: Once | None = None,
    ) -> Route:
        """Make the revision live that was it before, or one of your choice.

        Raises:
            NotFound: there is no such route or revision.
            Conflict: no other was live before.
        """
        with self._database.transaction() as tx:
            known = recall(tx, tenant, once) if once is not None else None
            if known is not None:
                return self._revision(tx, tenant, name, known["revision"])
            before = self._expected(tx, tenant, name, expected) or _nowhere(name)
            number = revision if revision is not None else self._previous(tx, before)
            after = self._revision(tx, tenant, name, number)
            if number != before.revision.number:
                at = timestamp(self._clock())
                move(tx, ROUTE_ROLLED_BACK, (tenant, name), before, after, actor=actor, reason=reason, at=at)
            if once is not None:
                keep(tx, tenant, once, {"revision": number}, now=self._clock())
            return after

    def remove(
        self, tenant: str, name: str, *, expected: str | None = None, actor: str, reason: str | None = None
    ) -> None:
        """Take a route away; an adapter of its name has its implicit route again. Its revisions stay.

        Raises:
            NotFound: there is no such route.
        """
        with self._database.transaction() as tx:
            before = self._expected(tx, tenant, name, expected) or _nowhere(name)
            at = timestamp(self._clock())
            move(tx, ROUTE_REMOVED, (tenant, name), before, None, actor=actor, reason=reason, at=at)

    def show(self, tenant: str, name: str, revision: int | None = None) -> tuple[Route, bool]:
        """The live revision, or another; and whether it is live.

        Raises:
            NotFound: there is none.
        """
        with self._database.reading() as tx:
            live = rows.live_route(tx, tenant, check_route_name(name))
            if revision is None:
                return live or _nowhere(name), True
            found = self._revision(tx, tenant, name, revision)
            return found, live is not None and live.revision.number == revision

    def page(self, tenant: str, *, page_size: int = 100, page_token: str = "") -> Page[Route]:
        """A tenant's routes by name."""
        check_page_size(page_size)
        with self._database.reading() as tx:
            found = rows.some_routes(tx, tenant, after=page_token, limit=page_size + 1)
        items = tuple(found[:page_size])
        return Page(items, items[-1].name if len(found) > page_size else None)

    def revisions(
        self, tenant: str, name: str, *, page_size: int = 100, page_token: str = ""
    ) -> tuple[Page[Route], int | None]:
        """All that a route of this name ever had, the newest first; and which one is live, None where it is removed.

        Raises:
            NotFound: there never was one.
        """
        check_page_size(page_size)
        before = _read_token(page_token) if page_token else None
        with self._database.reading() as tx:
            live = rows.live_route(tx, tenant, check_route_name(name))
            found = rows.some_revisions(tx, tenant, name, before=before, limit=page_size + 1)
        if not found and before is None:
            _nowhere(name)
        items = tuple(found[:page_size])
        token = str(items[-1].revision.number) if len(found) > page_size else None
        return Page(items, token), live.revision.number if live else None

    def _expected(self, tx: Transaction, tenant: str, name: str, expected: str | None) -> Route | None:
        found = rows.live_route(tx, tenant, check_route_name(name))
        if expected is None or expected == (found.revision.digest if found else ABSENT):
            return found
        if found and expected == PRESENT:
            return found
        where = f"at revision {found.revision.number} ({found.revision.digest})" if found else "not there"
        raise PreconditionFailed(f"The route {name} is {where}, not at {expected} as you expected; look again.")

    def _revision(self, tx: Transaction, tenant: str, name: str, number: int) -> Route:
        found = rows.revision_at(tx, tenant, name, number)
        if found is None:
            raise NotFound(f"The route {name} has no revision {number}. `graftwork route history {name}` lists them.")
        return found

    def _previous(self, tx: Transaction, route: Route) -> int:
        trail = live_trail(events.read_events(tx, route.tenant, subject_of_route(route.name)))
        if len(trail) < 2:
            raise Conflict(f"The route {route.name} has no earlier revision to roll back to; set another one.")
        return trail[-2]


def move(
    tx: Transaction,
    kind: str,
    key: tuple[str, str],
    before: Route | None,
    after: Route | None,
    *,
    actor: str,
    reason: str | None,
    at: str,
) -> None:
    """Let a route (tenant and name) mean another revision, and tell the log."""
    was, now = (end.revision.number if end is not None else None for end in (before, after))
    rows.point(tx, *key, before=was, after=now, at=at, actor=actor)
    payload = {"from": _brief(before), "to": _brief(after), "reason": reason}
    events.append(tx, key[0], actor, kind, subject_of_route(key[1]), payload, at=at)


def has_route(tx: Transaction, tenant: str, name: str) -> bool:
    """Whether a route resource of this tenant is called so."""
    return rows.live_route(tx, tenant, name) is not None


def _brief(route: Route | None) -> dict[str, object] | None:
    return None if route is None else {"revision": route.revision.number, "digest": route.revision.digest}


def _nowhere(name: str) -> Route:
    raise NotFound(f"There is no route {name[:200]}. `graftwork route list` shows what there is.")


def _read_token(token: str) -> int:
    if not (token.isascii() and token.isdecimal() and len(token) < 16):
        raise InvalidRequest("page_token is not one that a list gave out.", field="page_token")
    return int(token)

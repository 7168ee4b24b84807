"""Resources: sets, rolls back, removes and shows what the names of one kind mean in one database."""

from __future__ import annotations

from typing import Any, Generic

from graftwork.access import events
from graftwork.access.clock import Clock, timestamp, utc_now
from graftwork.access.names import is_name
from graftwork.db import Database, Transaction
from graftwork.errors import Conflict, InvalidRequest, InvalidResource, NotFound, PreconditionFailed
from graftwork.protocol.canonical import sha256
from graftwork.registry.idempotency import Once, keep, recall
from graftwork.registry.page import Page, check_page_size
from graftwork.registry.pointers import ABSENT, PRESENT
from graftwork.traffic.resources import rows
from graftwork.traffic.resources.change import live_trail, move, write
from graftwork.traffic.resources.kind import Kind
from graftwork.traffic.resources.resource import Made, Spec


class Resources(Generic[Spec, Made]):
    """Each change is a revision that is there for good, a move of the live pointer, and an event, in one transaction.

    `expected` is the digest of the revision that must be live, ABSENT, PRESENT or None; else PreconditionFailed. For
    several changes in one transaction see `db/within.py`.
    """

    def __init__(self, kind: Kind[Spec, Made], database: Database, clock: Clock = utc_now) -> None:
        self.kind, self._database, self._clock = kind, database, clock

    def set(
        self,
        tenant: str,
        name: str,
        spec: Spec,
        *,
        expected: str | None = None,
        actor: str,
        reason: str | None = None,
    ) -> tuple[Made, bool]:
        """Make a spec what the name means; True where it meant nothing. The spec that it means already changes nothing.

        Raises:
            InvalidRequest: the name. InvalidResource: the spec, by its field.
            Conflict: the tenant has as many as it may, or something else has the name.
        """
        text = self._checked(name, spec)
        with self._database.transaction() as tx:
            before = self._expected(tx, tenant, name, expected)
            if before is not None and before.revision.digest == sha256(text):
                return before, False
            self.check_free(tx, tenant, name)
            if before is None and rows.count_live(tx, self.kind, tenant) >= self.kind.most:
                raise Conflict(
                    f"You have {self.kind.most} resources of the kind {self.kind.title}, and may have no more; remove "
                    "what you no longer need."
                )
            told: dict[str, Any] = {"actor": actor, "reason": reason, "at": timestamp(self._clock())}
            return write(tx, self.kind, (tenant, name), before, spec, text, **told), before is None

    def remove(
        self, tenant: str, name: str, *, expected: str | None = None, actor: str, reason: str | None = None
    ) -> None:
        """Let the name mean nothing; its revisions stay, and it counts on from them when it is set again.

        Raises:
            NotFound: it means nothing.
        """
        with self._database.transaction() as tx:
            before = self._there(tx, tenant, name, expected)
            at = timestamp(self._clock())
            move(tx, self.kind, self.kind.removed, (tenant, name), before, None, actor=actor, reason=reason, at=at)

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
    ) -> Made:
        """Make the revision live that was it before, or one of your choice.

        Raises:
            NotFound: the name means nothing, or has no such revision.
            Conflict: no other was live before.
        """
        with self._database.transaction() as tx:
            known = recall(tx, tenant, once) if once is not None else None
            if known is not None:
                return self._revision(tx, tenant, name, known["revision"])
            after = self._rolled_back(tx, tenant, name, revision, expected, actor=actor, reason=reason)
            if once is not None:
                keep(tx, tenant, once, after.revision.brief(), now=self._clock())
            return after

    def show(self, tenant: str, name: str, revision: int | None = None) -> Made:
        """What the name means, or meant at another revision.

        Raises:
            NotFound: nothing, or there is no such revision.
        """
        with self._database.reading() as tx:
            return self.show_in(tx, tenant, name, revision)

    def show_in(self, tx: Transaction, tenant: str, name: str, revision: int | None = None) -> Made:
        if revision is not None:
            return self._revision(tx, tenant, name, revision)
        found = rows.find_live(tx, self.kind, tenant, name)
        if found is None:
            raise self.kind.missing(name)
        return found

    def list(self, tenant: str, *, page_size: int = 100, page_token: str | None = None) -> Page[Made]:
        """By name; pass `next_page_token` on to get the next ones."""
        check_page_size(page_size)
        if page_token and not is_name(page_token):
            raise _no_token()
        with self._database.reading() as tx:
            found = rows.live_by_name(tx, self.kind, tenant, after=page_token or "", limit=page_size + 1)
        items = tuple(found[:page_size])
        return Page(items, items[-1].name if len(found) > page_size else None)

    def revisions(self, tenant: str, name: str, *, page_size: int = 100, page_token: str | None = None) -> Page[Made]:
        """All that the name ever meant, the newest first, also where it means nothing now.

        Raises:
            NotFound: it never meant anything.
        """
        check_page_size(page_size)
        before = _read_token(page_token) if page_token else None
        with self._database.reading() as tx:
            found = rows.revisions_of(tx, self.kind, tenant, name, before=before, limit=page_size + 1)
        if not found and before is None:
            raise self.kind.missing(name)
        items = tuple(found[:page_size])
        return Page(items, str(items[-1].revision.number) if len(found) > page_size else None)

    def check_free(self, tx: Transaction, tenant: str, name: str) -> None:
        """Raises Conflict where something else has the name; a kind whose names are shared says so here."""

    def _checked(self, name: str, spec: Spec) -> str:
        self.kind.check_name(name)
        try:
            return self.kind.text(spec)
        except InvalidRequest as error:
            raise InvalidResource(error.message, field=error.field) from error

    def _rolled_back(
        self,
        tx: Transaction,
        tenant: str,
        name: str,
        revision: int | None,
        expected: str | None,
        *,
        actor: str,
        reason: str | None,
    ) -> Made:
        before = self._there(tx, tenant, name, expected)
        number = revision if revision is not None else self._previous(tx, before)
        if number == before.revision.number:
            return before
        after, at = self._revision(tx, tenant, name, number), timestamp(self._clock())
        move(tx, self.kind, self.kind.rolled_back, (tenant, name), before, after, actor=actor, reason=reason, at=at)
        return self._revision(tx, tenant, name, number)

    def _there(self, tx: Transaction, tenant: str, name: str, expected: str | None) -> Made:
        found = self._expected(tx, tenant, name, expected)
        if found is None:
            raise self.kind.missing(name)
        return found

    def _expected(self, tx: Transaction, tenant: str, name: str, expected: str | None) -> Made | None:
        found = rows.find_live(tx, self.kind, tenant, name)
        if expected is None or expected == (found.revision.digest if found else ABSENT):
            return found
        if found and expected == PRESENT:
            return found
        where = f"at revision {found.revision.number} ({found.revision.digest})" if found else "not there"
        raise PreconditionFailed(
            f"The {self.kind.noun} {name} is {where}, not at {expected} as you expected; look again."
        )

    def _revision(self, tx: Transaction, tenant: str, name: str, number: int) -> Made:
        found = rows.revision_at(tx, self.kind, tenant, name, number)
        if found is None:
            raise NotFound(f"The {self.kind.noun} {name[:200]!r} has no revision {number}; its history shows which.")
        return found

    def _previous(self, tx: Transaction, live: Made) -> int:
        trail = live_trail(self.kind, events.read_events(tx, live.tenant, self.kind.subject(live.name)))
        if len(trail) < 2:
            raise Conflict(
                f"The {self.kind.noun} {live.name} has no earlier revision to roll back to; set another one."
            )
        return trail[-2]


def _read_token(token: str) -> int:
    if not (token.isascii() and token.isdecimal() and len(token) < 16):
        raise _no_token()
    return int(token)


def _no_token() -> InvalidRequest:
    return InvalidRequest("page_token is not one that a list gave out.", field="page_token")

"""EventLog: reads the event log of one database, page by page, and verifies it."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, select

from graftwork.access.chain import GENESIS, Chain
from graftwork.access.events import Event
from graftwork.db import Database
from graftwork.db.schema import events
from graftwork.errors import Damaged, InvalidRequest, NotFound, Unavailable, meant
from graftwork.protocol.canonical import parse

PAGE = 1000


@dataclass(frozen=True)
class Wanted:
    """Which of a tenant's events: what is None or 0 excludes nothing."""

    kind: str | None = None
    subject: str | None = None
    actor: str | None = None
    after: int = 0  #: the position before the first one
    since: str | None = None  #: the earliest time, as `timestamp` writes it
    until: str | None = None  #: the first time that is too late

    def conditions(self) -> list[ColumnElement[bool]]:
        found = [events.c.position > self.after]
        found += [events.c[name] == value for name in ("kind", "subject", "actor") if (value := getattr(self, name))]
        found += [events.c.at >= self.since] if self.since else []
        found += [events.c.at < self.until] if self.until else []
        return found


@dataclass(frozen=True)
class Head:
    """The end of the log, over all tenants."""

    events: int
    head: str  #: hash of the last event


@dataclass(frozen=True)
class Verification:
    """What a walk along the chain found: `events` of it hold, `head` is the hash of the last one that does."""

    events: int
    head: str
    withheld: int = 0  #: of them, those whose content was not there to be checked: other tenants', in a file
    problem: str | None = None

    def to_json(self) -> dict[str, Any]:
        return {"ok": self.problem is None, **self.__dict__}


class EventLog:
    """For use from any thread. It tells a tenant's content to that tenant only, and of others positions and hashes."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._walking = threading.Lock()

    def head(self) -> Head:
        with self._database.reading() as tx:
            last = select(events.c.position, events.c.hash).order_by(events.c.position.desc()).limit(1)
            row = tx.execute(last).first()
        return Head(row.position, row.hash) if row else Head(0, GENESIS)

    def page(self, tenant: str, wanted: Wanted, limit: int) -> list[Event]:
        """A tenant's first `limit` events that are wanted, in order."""
        query = select(events).where(events.c.tenant == tenant, *wanted.conditions())
        with self._database.reading() as tx:
            return [Event.from_row(row) for row in tx.execute(query.order_by(events.c.position).limit(limit))]

    def check_kind(self, tenant: str, kind: str, known: Collection[str]) -> None:
        """Raises InvalidRequest for a kind that is none of the known, unless a tenant's log has it all the same."""
        if kind not in known and not self._has(tenant, events.c.kind == kind):
            raise InvalidRequest(f"No event is of the kind {kind[:64]!a}. {meant(kind, known)}", field="kind")

    def check_subject(self, tenant: str, subject: str) -> None:
        """Raises NotFound where none of a tenant's events is about that."""
        if not self._has(tenant, events.c.subject == subject):
            raise NotFound(
                f"No event is about {subject[:512]!a}. A subject is adapters/NAME, bases/NAME or the like, or for a "
                "whole tenant a word such as policy, retention or gc."
            )

    def _has(self, tenant: str, wanted: ColumnElement[bool]) -> bool:
        query = select(events.c.position).where(events.c.tenant == tenant, wanted).limit(1)
        with self._database.reading() as tx:
            return tx.execute(query).first() is not None

    def links(self, tenant: str, after: int, limit: int) -> list[dict[str, Any]]:
        """The whole chain's next events: this tenant's whole, others' as position, previous hash and hash."""
        return [
            {**row, "payload": parse(row["payload"])}
            if row["tenant"] == tenant
            else {name: row[name] for name in ("position", "previous", "hash")}
            for row in self._rows(after, limit)
        ]

    def verify(self, expected_head: str | None = None) -> Verification:
        """Check every hash of the log, a page of it in memory at a time.

        Args:
            expected_head: a hash that was noted down before and must still be in it.

        Raises:
            Unavailable: somebody else is at it.
        """
        if not self._walking.acquire(blocking=False):
            raise Unavailable("The event log is being verified already; ask again when that is done.", retry_after_s=5)
        chain = Chain(expected_head)
        try:
            for row in self._walk():
                chain.follow(row)
            chain.finish()
        except Damaged as error:
            return Verification(chain.events, chain.head, problem=error.message)
        finally:
            self._walking.release()
        return Verification(chain.events, chain.head)

    def _walk(self) -> Iterator[dict[str, Any]]:
        # A transaction per page: the log is append-only, so pages fit together, and none is held open for long.
        after = 0
        while rows := self._rows(after, PAGE):
            yield from rows
            after = rows[-1]["position"]

    def _rows(self, after: int, limit: int) -> list[dict[str, Any]]:
        query = select(events).where(events.c.position > after).order_by(events.c.position).limit(limit)
        with self._database.reading() as tx:
            return [row._asdict() for row in tx.execute(query)]

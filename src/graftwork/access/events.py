"""The event log: append-only and hash-chained; every change writes one event in its own transaction.

Each event's hash covers its content and the hash before it, so that nobody can change, drop or insert one in
the middle without `verify_chain` noticing. Cutting off the end is noticed by whoever noted a later hash.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row, func, select

from graftwork.access.chain import GENESIS, Chain, hash_of
from graftwork.access.request_id import REQUEST_ID, current_request_id
from graftwork.db import Transaction
from graftwork.db.schema import events
from graftwork.protocol.canonical import canonical, parse

# NOTE: made once, as every change asks for both.
_LAST = select(events.c.position, events.c.hash).order_by(events.c.position.desc()).limit(1)
_INSERT = events.insert()


@dataclass(frozen=True)
class Event:
    """One row of the log."""

    position: int  #: 1, 2, 3 … without gaps, over all tenants
    tenant: str
    at: str  #: RFC 3339, UTC, microseconds
    actor: str  #: the authenticated principal
    kind: str  #: `entity.action`
    subject: str
    payload: Mapping[str, Any]
    previous: str
    hash: str

    @classmethod
    def from_row(cls, row: Row[Any]) -> Event:
        return cls(**{**row._mapping, "payload": parse(row.payload)})

    def to_json(self) -> dict[str, Any]:
        return {**self.__dict__, "payload": dict(self.payload)}


def append(
    tx: Transaction, tenant: str, actor: str, kind: str, subject: str, payload: Mapping[str, Any], *, at: str
) -> Event:
    """Add one event to the end of the log, in the transaction of the change it tells of.

    Where a request made the change, its id is in the payload, and so in the hash.

    Raises:
        InvalidRequest: the payload is not JSON.
    """
    last = tx.execute(_LAST).first()
    request_id = current_request_id()
    asked = {} if request_id is None else {REQUEST_ID: request_id}
    payload_text = canonical({**payload, **asked}, what="payload")
    body: dict[str, Any] = {
        "position": last.position + 1 if last else 1,
        "tenant": tenant,
        "at": at,
        "actor": actor,
        "kind": kind,
        "subject": subject,
        "payload": payload_text,
        "previous": last.hash if last else GENESIS,
    }
    row = sealed(body)
    tx.execute(_INSERT, row)
    return Event(**{**row, "payload": parse(payload_text)})


def sealed(body: Mapping[str, Any]) -> dict[str, Any]:
    """The row of an event, whose payload is canonical text, with its hash."""
    return {**body, "hash": hash_of(body)}


def head(tx: Transaction) -> int:
    """Position of the last event; 0 while there is none."""
    return int(tx.execute(select(func.coalesce(func.max(events.c.position), 0))).scalar_one())


def read_events(tx: Transaction, tenant: str, subject: str | None = None, *, after: int = 0) -> list[Event]:
    """A tenant's events in order, all or those about one subject, from the one after position `after`."""
    query = select(events).where(events.c.tenant == tenant, events.c.position > after)
    if subject is not None:
        query = query.where(events.c.subject == subject)
    return [Event.from_row(row) for row in tx.execute(query.order_by(events.c.position))]


def subjects_after(tx: Transaction, position: int) -> set[tuple[str, str]]:
    """Every (tenant, subject) that the log speaks of after a position."""
    query = select(events.c.tenant, events.c.subject).where(events.c.position > position).distinct()
    return {(row.tenant, row.subject) for row in tx.execute(query)}


def verify_chain(tx: Transaction, *, expected_head: str | None = None) -> int:
    """How many events there are, after checking every hash.

    NOTE: it reads the whole log in one transaction; `EventLog.verify` does the same page by page.

    Raises:
        Damaged: naming the first position where the chain does not hold, or when `expected_head` is not in
            it.
    """
    chain = Chain(expected_head)
    query = select(events).order_by(events.c.position).execution_options(yield_per=1000)
    with tx.execute(query) as rows:
        for row in rows:
            chain.follow(row._asdict())
    chain.finish()
    return chain.events

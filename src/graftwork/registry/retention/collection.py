"""Collections in the log: how a push and a collection of the bytes that it counts on never miss each other.

A collection writes `gc.began`, removes blobs in batches, each inside a transaction of its own, and writes `gc.ended`.
A push looks at the log's position, then at its blobs, and registers. If a collection has begun or ended since, or has
not ended yet, the push looks at its blobs again inside its transaction. Writers take turns, so what it sees there no
batch removes before its row is written, and every batch after that sees the row. A collection that dies stays open,
which costs pushes a look, until the next one ends; of two at once the older one stops at its next batch.
"""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import select

from graftwork.access import events
from graftwork.access.events import Event
from graftwork.db import Transaction, schema
from graftwork.errors import Conflict

SUBJECT: Final = "gc"
BEGAN: Final = "gc.began"
ENDED: Final = "gc.ended"


def begin(tx: Transaction, tenant: str, actor: str, *, at: str) -> Event:
    """Open a collection; the position of its event names it."""
    return events.append(tx, tenant, actor, BEGAN, SUBJECT, {}, at=at)


def end(tx: Transaction, tenant: str, actor: str, begun: int, payload: dict[str, Any], *, at: str) -> None:
    """Close the collection that began at the position `begun`, with what it did; raises as `check_own`."""
    check_own(tx, tenant, begun)
    events.append(tx, tenant, actor, ENDED, SUBJECT, {"began": begun, **payload}, at=at)


def check_own(tx: Transaction, tenant: str, begun: int) -> None:
    """Raises Conflict when another collection has begun since the one at the position `begun`."""
    last = _last(tx, tenant)
    if last is None or last.position != begun:
        raise Conflict("Another collection has begun; this one stops, and what it has removed is gone.")


def collected_since(tx: Transaction, tenant: str, position: int) -> bool:
    """Whether blobs may have gone since a position of the log, or may be going now."""
    last = _last(tx, tenant)
    return last is not None and (last.kind == BEGAN or last.position > position)


def _last(tx: Transaction, tenant: str) -> Event | None:
    own = select(schema.events).where(schema.events.c.tenant == tenant, schema.events.c.subject == SUBJECT)
    row = tx.execute(own.order_by(schema.events.c.position.desc()).limit(1)).first()
    return Event.from_row(row) if row is not None else None

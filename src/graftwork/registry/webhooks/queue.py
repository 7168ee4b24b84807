"""Queue: which events are to be sent to a webhook, in the order of the log, each once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any, Final

from sqlalchemy import Row, and_, delete, func, select, update

from graftwork.access.clock import timestamp
from graftwork.access.events import Event, head
from graftwork.db import Transaction
from graftwork.db.schema import events, webhook_deliveries, webhooks
from graftwork.registry.webhooks.webhook import Webhook

PENDING: Final = "pending"
#: What a test delivery says that it is.
TEST: Final = "webhook.test"


@dataclass(frozen=True)
class Delivery:
    """One event on its way to one webhook."""

    tenant: str
    webhook: str
    number: int
    id: str  #: the same for every attempt, so that whoever gets it twice can tell
    kind: str
    position: int | None  #: of the event; None: a test
    status: str  #: `pending`, `delivered` or `failed`
    attempts: int
    queued_at: str  #: or when somebody asked for it to be tried again
    due_at: str
    attempted_at: str | None
    answered: int | None  #: the status of the last answer
    error: str | None

    @classmethod
    def from_row(cls, row: Row[Any]) -> Delivery:
        return cls(**row._mapping)

    def to_json(self) -> dict[str, Any]:
        told = {name: value for name, value in self.__dict__.items() if name not in ("tenant", "webhook")}
        return told if self.status == PENDING else {**told, "due_at": None}


def webhooks_of(tx: Transaction, tenants: Iterable[str]) -> list[Webhook]:
    query = select(webhooks).where(webhooks.c.tenant.in_(list(tenants)))
    return [Webhook.from_row(row) for row in tx.execute(query.order_by(webhooks.c.tenant, webhooks.c.name))]


def page_after(tx: Transaction, position: int, limit: int) -> list[Event]:
    """The next events of all tenants."""
    query = select(events).where(events.c.position > position).order_by(events.c.position).limit(limit)
    return [Event.from_row(row) for row in tx.execute(query)]


def wanted(hooks: Iterable[Webhook], page: Iterable[Event]) -> dict[Webhook, list[Event]]:
    """What each webhook lacks of a page of the log; those that lack nothing are not there."""
    by_tenant: dict[str, list[Event]] = {}
    for event in page:
        by_tenant.setdefault(event.tenant, []).append(event)
    found = {
        hook: [
            event
            for event in by_tenant.get(hook.tenant, ())
            if event.position > hook.cursor and hook.wants(event.kind, event.subject)
        ]
        for hook in hooks
    }
    return {hook: lacking for hook, lacking in found.items() if lacking}


def queue(tx: Transaction, lacking: Mapping[Webhook, list[Event]], now: datetime) -> None:
    for hook, missing in lacking.items():
        for number, event in enumerate(missing, next_number(tx, hook)):
            insert(tx, hook, number, event.kind, event.position, now)


def catch_up(tx: Transaction, hook: Webhook, now: datetime) -> int:
    """Queue what it lacks as it is now, before it is changed; the position up to which that is done."""
    last = head(tx)
    query = select(events).where(events.c.tenant == hook.tenant, events.c.position > hook.cursor)
    missing = [Event.from_row(row) for row in tx.execute(query.order_by(events.c.position))]
    queue(tx, wanted([hook], missing), now)
    return last


def insert(tx: Transaction, hook: Webhook, number: int, kind: str, position: int | None, now: datetime) -> None:
    """Position None is a test."""
    what = f"test/{number}/{timestamp(now)}" if position is None else str(position)
    row = {"tenant": hook.tenant, "webhook": hook.name, "number": number, "kind": kind, "position": position}
    row |= {"id": f"msg_{sha256(f'{hook.id}/{what}'.encode()).hexdigest()[:32]}", "status": PENDING, "attempts": 0}
    tx.execute(webhook_deliveries.insert().values({**row, "queued_at": timestamp(now), "due_at": timestamp(now)}))


def next_number(tx: Transaction, hook: Webhook) -> int:
    last = select(func.coalesce(func.max(webhook_deliveries.c.number), 0)).where(of(hook.tenant, hook.name))
    return int(tx.execute(last).scalar_one()) + 1


def move_cursors(tx: Transaction, position: int) -> None:
    """All webhooks have what they want up to there."""
    tx.execute(update(webhooks).where(webhooks.c.cursor < position).values(cursor=position))


def forget(tx: Transaction, tenant: str, name: str, before: datetime) -> None:
    """Forget what was settled and is older."""
    old = and_(webhook_deliveries.c.status != PENDING, webhook_deliveries.c.queued_at < timestamp(before))
    tx.execute(delete(webhook_deliveries).where(of(tenant, name), old))


def of(tenant: str, name: str) -> Any:
    return and_(webhook_deliveries.c.tenant == tenant, webhook_deliveries.c.webhook == name)

"""Deliveries: what the one server that sends has to do next, and what came of it."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from sqlalchemy import func, select, update

from graftwork.access.clock import Clock, timestamp
from graftwork.access.events import Event
from graftwork.db import Database
from graftwork.db.lease import Held
from graftwork.db.schema import events, webhook_deliveries, webhooks
from graftwork.db.time import DatabaseClock
from graftwork.errors import Damaged
from graftwork.registry.webhooks.outcome import Outcome
from graftwork.registry.webhooks.queue import (
    PENDING,
    TEST,
    Delivery,
    forget,
    move_cursors,
    of,
    page_after,
    queue,
    wanted,
    webhooks_of,
)
from graftwork.registry.webhooks.secrets import Secrets, signature
from graftwork.registry.webhooks.webhook import Webhook

#: Events that are looked at in one go, and how far cursors lag at most behind what was looked at.
PAGE: Final = 500
#: How long settled deliveries are kept to be shown.
KEPT: Final = timedelta(days=14)


@dataclass(frozen=True)
class Place:
    """A webhook that has something to be sent, and since when."""

    tenant: str
    webhook: str
    due: bool


@dataclass(frozen=True)
class Message:
    """What is sent; or the problem that keeps it from being signed."""

    delivery: Delivery
    url: str
    headers: dict[str, str]
    body: bytes
    problem: str | None = None


class Deliveries:
    """For use from any thread. What is written is written by the right of a lease, or not at all."""

    def __init__(
        self,
        database: Database,
        secrets: Secrets,
        clock: Clock | None = None,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._database, self._secrets = database, secrets
        self._clock = clock or DatabaseClock(database)  # the one clock that all servers share
        self._chance = chance

    def start(self) -> int | None:
        """The position after which something may not be queued yet; None while there are no webhooks."""
        with self._database.reading() as tx:
            found: int | None = tx.execute(select(func.min(webhooks.c.cursor))).scalar()
        return found

    def queue(self, after: int, held: Held) -> int:
        """Queue what webhooks want of the log after a position; the position up to which that is done."""
        while True:
            with self._database.reading() as tx:
                page = page_after(tx, after, PAGE)
                tenants = {event.tenant for event in page}
                lacking = wanted(webhooks_of(tx, tenants), page)
            if not page:
                return after
            last = page[-1].position
            if lacking or after // PAGE != last // PAGE:
                now = self._clock()
                with self._database.transaction() as tx:
                    if not held.holds(tx):
                        return after
                    again = wanted(webhooks_of(tx, tenants), page)  # somebody may have changed one
                    queue(tx, again, now)
                    for hook in again:
                        forget(tx, hook.tenant, hook.name, now - KEPT)
                    move_cursors(tx, last)
            after = last

    def places(self) -> list[Place]:
        """Every webhook that something is pending for, whoever waits longest first."""
        first = func.min(webhook_deliveries.c.due_at)
        query = select(webhook_deliveries.c.tenant, webhook_deliveries.c.webhook, first)
        query = query.where(webhook_deliveries.c.status == PENDING)
        query = query.group_by(webhook_deliveries.c.tenant, webhook_deliveries.c.webhook).order_by(first)
        with self._database.reading() as tx:
            found = tx.execute(query).all()
        now = timestamp(self._clock()) if found else ""
        return [Place(tenant, webhook, due_at <= now) for tenant, webhook, due_at in found]

    def next_of(self, place: Place) -> Message | None:
        """What is due to a webhook first, signed now."""
        now = self._clock()
        query = select(webhook_deliveries).where(
            of(place.tenant, place.webhook),
            webhook_deliveries.c.status == PENDING,
            webhook_deliveries.c.due_at <= timestamp(now),
        )
        query = query.order_by(webhook_deliveries.c.due_at, webhook_deliveries.c.number).limit(1)
        with self._database.reading() as tx:
            if (row := tx.execute(query).first()) is None:
                return None
            delivery = Delivery.from_row(row)
            there = webhooks.c.tenant == place.tenant, webhooks.c.name == place.webhook
            hook = Webhook.from_row(tx.execute(select(webhooks).where(*there)).one())
            event = tx.execute(select(events).where(events.c.position == delivery.position)).first()
        return self._message(hook, delivery, Event.from_row(event) if event else None, now)

    def settle(self, delivery: Delivery, outcome: Outcome, held: Held) -> str | None:
        """Write what came of an attempt; the status now, None where that is not this server's to say any more."""
        now, attempts = self._clock(), delivery.attempts + 1
        queued = datetime.fromisoformat(delivery.queued_at)
        again = outcome.again_at(attempts, queued, now, self._chance())
        status = "delivered" if outcome.delivered else PENDING if again else "failed"
        change = {"status": status, "attempts": attempts, "attempted_at": timestamp(now), "answered": outcome.status}
        change |= {"error": outcome.words, "due_at": timestamp(again or now)}
        same = webhook_deliveries.c.id == delivery.id, webhook_deliveries.c.status == PENDING
        with self._database.transaction() as tx:
            if not held.holds(tx):
                return None
            tx.execute(update(webhook_deliveries).where(of(delivery.tenant, delivery.webhook), *same).values(change))
        return status

    def _message(self, hook: Webhook, delivery: Delivery, event: Event | None, now: datetime) -> Message:
        seconds = int(now.timestamp())
        told = {"webhook": hook.name} if delivery.kind == TEST or event is None else event.to_json()
        at = delivery.queued_at if event is None else event.at
        body = json.dumps({"type": delivery.kind, "timestamp": at, "data": told}).encode()
        stored = [hook.secret]
        if hook.previous_secret is not None and (hook.previous_until or "") > timestamp(now):
            stored.append(hook.previous_secret)
        try:
            secrets = [self._secrets.open(hook.tenant, hook.id, one) for one in stored]
        except Damaged as error:
            return Message(delivery, hook.url, {}, body, problem=error.message)
        headers = {
            "content-type": "application/json",
            "webhook-id": delivery.id,
            "webhook-timestamp": str(seconds),
            "webhook-signature": " ".join(signature(one, delivery.id, seconds, body) for one in secrets),
        }
        return Message(delivery, hook.url, headers, body)

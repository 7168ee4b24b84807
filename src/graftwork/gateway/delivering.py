"""Delivering: what each server does by itself for webhooks: one of them queues what they want, and sends it."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections import Counter
from collections.abc import Callable
from typing import Final

from graftwork.artifacts.keyring import Keyring
from graftwork.db import Database
from graftwork.db.lease import Held, Lease
from graftwork.errors import GraftworkError
from graftwork.gateway.in_thread import in_thread
from graftwork.gateway.outgoing import Outgoing
from graftwork.registry.webhooks.deliveries import Deliveries, Place
from graftwork.registry.webhooks.outcome import Outcome
from graftwork.registry.webhooks.secrets import Secrets
from graftwork.registry.webhooks.webhooks import Webhooks
from graftwork.settings import Settings

log = logging.getLogger(__name__)

#: How often it is looked whether anything is to be done, in seconds; and how often though the log has not grown.
LOOK_S: Final = 0.5
IDLE_LOOKS: Final = 4
#: Webhooks that are sent to at the same time, of all tenants and of one: who does not answer holds up his own only.
MOST: Final = 16
MOST_OF_ONE: Final = 4
#: Messages to one webhook, one after another, before others have their turn.
IN_A_ROW: Final = 20


class Delivering:
    """A loop beside the requests; it ends with the server, and another one goes on from what the database says.

    Each message is sent at least once: who dies before he wrote down that it was taken leaves it to be sent again.

    Args:
        position: how long the log is.
        told: is given the end of each attempt: `delivered`, `pending` (it is tried again) or `failed`.
    """

    def __init__(
        self,
        deliveries: Deliveries,
        lease: Lease,
        outgoing: Outgoing,
        position: Callable[[], int],
        told: Callable[[str], None],
    ) -> None:
        self._deliveries, self._lease, self._outgoing = deliveries, lease, outgoing
        self._position, self._told = position, told
        self._held: Held | None = None
        self._queued: int | None = None  # up to this position, by this server
        self._sending: dict[tuple[str, str], asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Until it is cancelled; what goes wrong is told, and tried again."""
        seen, looks, more = -1, 0, False
        try:
            while True:
                await asyncio.sleep(LOOK_S)
                try:
                    position = await in_thread(self._position)
                    looks += 1
                    if more or position != seen or looks >= IDLE_LOOKS:
                        more = await self.look()
                        seen, looks = position, 0
                except GraftworkError as error:
                    log.warning("Webhooks cannot be sent to for now: %s", error.message)
                except Exception:
                    log.exception("Webhooks could not be sent to; it is tried again.")
        finally:
            await self.close()

    async def look(self) -> bool:
        """Queue what is wanted and begin to send what is due; whether anything is pending."""
        places = await in_thread(self._due)
        busy = Counter(tenant for tenant, _ in self._sending)
        for place in places:
            key = place.tenant, place.webhook
            free = len(self._sending) < MOST and busy[place.tenant] < MOST_OF_ONE
            if place.due and free and key not in self._sending:
                busy[place.tenant] += 1
                self._sending[key] = task = asyncio.create_task(self._send(place))
                task.add_done_callback(lambda _, key=key: self._sending.pop(key))  # type: ignore[misc]
        return bool(places)

    async def settled(self) -> None:
        """Wait for what is being sent."""
        await asyncio.gather(*self._sending.values())

    async def close(self) -> None:
        """Send nothing more, and let another server go on at once."""
        for task in self._sending.values():
            task.cancel()
        await asyncio.gather(*self._sending.values(), return_exceptions=True)
        if self._held is not None:
            try:
                await in_thread(self._lease.release)
            except GraftworkError as error:  # it goes on a little later
                log.info("The lease of webhooks was not given back: %s", error.message)

    def _due(self) -> list[Place]:
        start = self._deliveries.start()
        if start is None or (held := self._lease.hold()) is None:
            return []
        if self._held != held:  # somebody else may have had it: cursors say how far he came
            self._held, self._queued = held, start
        self._queued = self._deliveries.queue(self._queued if self._queued is not None else start, held)
        return self._deliveries.places()

    async def _send(self, place: Place) -> None:
        """What is due to one webhook, until one of it fails: then the others wait for the next look."""
        held = self._held
        assert held is not None, "who has no lease finds no place"
        try:
            for _ in range(IN_A_ROW):
                message = await in_thread(self._deliveries.next_of, place)
                if message is None:
                    return
                if message.problem is not None:
                    outcome = Outcome(error=message.problem)
                else:
                    outcome = await self._outgoing.send(message.url, message.headers, message.body)
                status = await in_thread(self._deliveries.settle, message.delivery, outcome, held)
                if status is None:
                    return
                self._told(status)
                if status != "delivered":
                    log.info("Webhook %s/%s: %s", place.tenant, place.webhook, outcome.words)
                    return
        except GraftworkError as error:
            log.warning("The webhook %s/%s cannot be sent to for now: %s", place.tenant, place.webhook, error.message)
        except Exception:
            log.exception("The webhook %s/%s could not be sent to; it is tried again.", place.tenant, place.webhook)


def delivered(
    settings: Settings, database: Database, position: Callable[[], int], told: Callable[[str], None]
) -> tuple[Webhooks, Delivering]:
    """The webhooks of a database, and the loop that sends to them."""
    secrets = Secrets(Keyring.read(settings.artifacts_keyring) if settings.artifacts_keyring else None)
    private = settings.webhook_private_targets
    lease = Lease(database, "webhooks", holder=uuid.uuid4().hex)
    sending = Delivering(Deliveries(database, secrets), lease, Outgoing(private=private), position, told)
    return Webhooks(database, secrets, private_targets=private), sending

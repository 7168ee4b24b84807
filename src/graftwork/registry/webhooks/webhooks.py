"""Webhooks: sets, changes and shows them; events included."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

from sqlalchemy import delete, func, select, update

from graftwork.access import events
from graftwork.access.clock import Clock, timestamp
from graftwork.access.names import check_name, is_name
from graftwork.db import Database, Transaction
from graftwork.db.schema import webhook_deliveries, webhooks
from graftwork.db.time import DatabaseClock
from graftwork.errors import Conflict, InvalidRequest, NotFound, PreconditionFailed
from graftwork.protocol.canonical import canonical
from graftwork.registry.owners import WEBHOOK, disown
from graftwork.registry.page import Page, check_page_size
from graftwork.registry.pointers import ABSENT, PRESENT
from graftwork.registry.webhooks.queue import PENDING, TEST, Delivery, catch_up, insert, next_number, of
from graftwork.registry.webhooks.secrets import Secrets, new_secret
from graftwork.registry.webhooks.targets import check_url
from graftwork.registry.webhooks.webhook import SUBJECTS, Webhook

#: How many a tenant may have: each event may be sent to each of them.
MOST: Final = 32
#: How long a secret goes on to sign beside the one that replaces it, where nothing else is said.
OVERLAP: Final = timedelta(days=1)


class Webhooks:
    """The webhooks of one database.

    Methods raise InvalidRequest for what cannot be read, NotFound for what is not there or belongs to another tenant.
    """

    def __init__(
        self, database: Database, secrets: Secrets, *, private_targets: bool = False, clock: Clock | None = None
    ) -> None:
        self._database, self._secrets, self._private = database, secrets, private_targets
        self._clock = clock or DatabaseClock(database)

    def set(
        self,
        tenant: str,
        name: str,
        url: str,
        patterns: Sequence[str],
        subjects: Sequence[str] = (),
        *,
        actor: str,
        reason: str | None = None,
        if_match: str | None = None,
    ) -> tuple[Webhook, str | None]:
        """Send the events of these kinds and subjects to a URL from now on; for a new one also its secret, once.

        Raises:
            InvalidRequest: nothing can be sent to that URL.
            Conflict: the tenant has as many as he may.
            PreconditionFailed: it is not what `if_match` says.
        """
        check_name(name, what="webhook")
        check_url(url, private=self._private)
        with self._database.transaction() as tx:
            now = self._clock()
            before = _find(tx, tenant, name)
            _check_expected(name, before, if_match)
            told = {"url": url, "events": _list(patterns), "subjects": _list(subjects)}
            stamp = {"updated_at": timestamp(now), "updated_by": actor}
            secret = None
            if before is None:
                secret = new_secret()
                self._insert(tx, tenant, name, {**told, **stamp}, secret)
            elif (before.url, before.events, before.subjects) == (url, tuple(patterns), tuple(subjects)):
                return before, None
            else:
                change = {**told, **stamp, "cursor": catch_up(tx, before, now)}
                tx.execute(update(webhooks).where(_at(tenant, name)).values(change))
            after = _require(tx, tenant, name)
            payload = {"from": before.brief() if before else None, "to": after.brief(), "reason": reason}
            _tell(tx, after, actor, "set", payload, timestamp(now))
        return after, secret

    def rotate(
        self, tenant: str, name: str, *, overlap: timedelta = OVERLAP, actor: str, reason: str | None = None
    ) -> tuple[Webhook, str]:
        """A new secret, shown once; for the time of the overlap deliveries are signed by the one before as well."""
        secret = new_secret()
        with self._database.transaction() as tx:
            now = self._clock()
            before, until = _require(tx, tenant, name), timestamp(now + overlap)
            change = {"secret": self._secrets.seal(tenant, before.id, secret), "previous_secret": before.secret}
            change |= {"previous_until": until, "updated_at": timestamp(now), "updated_by": actor}
            tx.execute(update(webhooks).where(_at(tenant, name)).values(change))
            _tell(tx, before, actor, "rotated", {"previous_until": until, "reason": reason}, timestamp(now))
            return _require(tx, tenant, name), secret

    def remove(self, tenant: str, name: str, *, actor: str, reason: str | None = None, if_match: str | None) -> None:
        """Send nothing there any more, not even what is pending."""
        with self._database.transaction() as tx:
            before = _require(tx, tenant, name)
            _check_expected(name, before, if_match)
            tx.execute(delete(webhook_deliveries).where(of(tenant, name)))
            tx.execute(delete(webhooks).where(_at(tenant, name)))
            disown(tx, tenant, [(WEBHOOK, name)])
            payload = {"from": before.brief(), "to": None, "reason": reason}
            _tell(tx, before, actor, "removed", payload, timestamp(self._clock()))

    def show(self, tenant: str, name: str) -> Webhook:
        with self._database.reading() as tx:
            return _require(tx, tenant, name)

    def list(self, tenant: str, *, page_size: int = 100, page_token: str | None = None) -> Page[Webhook]:
        """By name."""
        check_page_size(page_size)
        query = select(webhooks).where(webhooks.c.tenant == tenant)
        if page_token:
            if not is_name(page_token):
                raise _no_token()
            query = query.where(webhooks.c.name > page_token)
        with self._database.reading() as tx:
            rows = tx.execute(query.order_by(webhooks.c.name).limit(page_size + 1)).all()
        found = tuple(Webhook.from_row(row) for row in rows[:page_size])
        return Page(found, found[-1].name if len(rows) > page_size else None)

    def test(self, tenant: str, name: str) -> Delivery:
        """Queue a delivery that tells of nothing."""
        with self._database.transaction() as tx:
            hook = _require(tx, tenant, name)
            number = next_number(tx, hook)
            insert(tx, hook, number, TEST, None, self._clock())
            row = tx.execute(select(webhook_deliveries).where(_numbered(tenant, name, number))).one()
            return Delivery.from_row(row)

    def deliveries(
        self,
        tenant: str,
        name: str,
        *,
        status: str | None = None,
        page_size: int = 100,
        page_token: str | None = None,
    ) -> Page[Delivery]:
        """The newest first."""
        check_page_size(page_size)
        query = select(webhook_deliveries).where(of(tenant, name))
        if status is not None:
            query = query.where(webhook_deliveries.c.status == status)
        if page_token:
            if not (page_token.isascii() and page_token.isdecimal() and len(page_token) <= 18):
                raise _no_token()
            query = query.where(webhook_deliveries.c.number < int(page_token))
        with self._database.reading() as tx:
            _require(tx, tenant, name)
            rows = tx.execute(query.order_by(webhook_deliveries.c.number.desc()).limit(page_size + 1)).all()
        found = tuple(Delivery.from_row(row) for row in rows[:page_size])
        return Page(found, str(found[-1].number) if len(rows) > page_size else None)

    def retry(self, tenant: str, name: str, delivery: str | None = None) -> int:
        """Try what failed again, all of it or one delivery; how many that are.

        Raises:
            NotFound: there is no such delivery, or not any more.
            Conflict: it did not fail.
        """
        now = timestamp(self._clock())
        change: dict[str, Any] = {"status": PENDING, "attempts": 0, "queued_at": now, "due_at": now}
        failed = of(tenant, name) & (webhook_deliveries.c.status == "failed")
        with self._database.transaction() as tx:
            _require(tx, tenant, name)
            if delivery is not None:
                one = webhook_deliveries.c.id == delivery
                status = tx.execute(select(webhook_deliveries.c.status).where(of(tenant, name), one)).scalar()
                if status is None:
                    raise NotFound(f"The webhook {name} has no delivery {delivery[:64]!a}.")
                if status != "failed":
                    raise Conflict(f"The delivery {delivery} is {status}; only one that failed is tried again.")
                failed &= one
            return int(tx.execute(update(webhook_deliveries).where(failed).values(change)).rowcount)

    def _insert(self, tx: Transaction, tenant: str, name: str, told: dict[str, Any], secret: str) -> None:
        count = select(func.count()).select_from(webhooks).where(webhooks.c.tenant == tenant)
        if tx.execute(count).scalar_one() >= MOST:
            raise Conflict(f"There are {MOST} webhooks already, as many as a tenant may have; remove one.")
        uid = uuid.uuid4().hex
        row: dict[str, Any] = {
            "tenant": tenant,
            "name": name,
            "id": uid,
            "secret": self._secrets.seal(tenant, uid, secret),
        }
        row |= {"cursor": events.head(tx), "created_at": told["updated_at"], "created_by": told["updated_by"]}
        tx.execute(webhooks.insert().values({**told, **row}))


def _require(tx: Transaction, tenant: str, name: str) -> Webhook:
    if (found := _find(tx, tenant, name)) is None:
        raise NotFound(f"There is no webhook {name[:200]!a}. `graftwork webhook list` shows what there is.")
    return found


def _find(tx: Transaction, tenant: str, name: str) -> Webhook | None:
    row = tx.execute(select(webhooks).where(_at(tenant, name))).first()
    return Webhook.from_row(row) if row else None


def _check_expected(name: str, actual: Webhook | None, expected: str | None) -> None:
    if expected is None or (expected == PRESENT and actual) or expected == (actual.etag if actual else ABSENT):
        return
    raise PreconditionFailed(f"The webhook {name} is {'another' if actual else 'not there'} now; look again.")


def _tell(tx: Transaction, hook: Webhook, actor: str, what: str, payload: dict[str, Any], at: str) -> None:
    events.append(tx, hook.tenant, actor, f"webhook.{what}", f"{SUBJECTS}{hook.name}", payload, at=at)


def _list(patterns: Sequence[str]) -> str:
    return canonical(list(patterns), what="patterns")


def _at(tenant: str, name: str) -> Any:
    return (webhooks.c.tenant == tenant) & (webhooks.c.name == name)


def _numbered(tenant: str, name: str, number: int) -> Any:
    return of(tenant, name) & (webhook_deliveries.c.number == number)


def _no_token() -> InvalidRequest:
    return InvalidRequest("page_token is not one that a list gave out.", field="page_token")

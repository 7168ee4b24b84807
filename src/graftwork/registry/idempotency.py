"""Idempotency keys: the same request under the same key is done once, and answered the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import and_, delete, or_, select

from graftwork.access.clock import timestamp
from graftwork.db import Transaction
from graftwork.db.schema import idempotency_keys
from graftwork.errors import Conflict
from graftwork.protocol.canonical import canonical, parse
from graftwork.registry.versions import Version, version_at

#: A client that has not asked again by then has given up.
KEPT = timedelta(days=7)


@dataclass(frozen=True)
class Once:
    """What a client calls one request, and what the request was."""

    key: str
    fingerprint: str  #: digest of door and body


def once_only(
    tx: Transaction, tenant: str, once: Once | None, change: Callable[[], tuple[Version, bool]], *, now: datetime
) -> tuple[Version, bool]:
    """What `change` makes; or what it made before, where the same request comes again."""
    if once is None:
        return change()
    known = answered(tx, tenant, once)
    if known is None:
        known = change()
        remember(tx, tenant, once, *known, now=now)
    return known


def recall(tx: Transaction, tenant: str, once: Once) -> dict[str, Any] | None:
    """What `keep` was given for the same request, when it was done already.

    Raises:
        Conflict: the key was used for another request.
    """
    query = select(idempotency_keys).where(idempotency_keys.c.tenant == tenant, idempotency_keys.c.key == once.key)
    row = tx.execute(query).first()
    if row is None:
        return None
    if row.fingerprint != once.fingerprint:
        raise Conflict(f"The Idempotency-Key {once.key!a} was used for another request; a new request needs a new key.")
    answer: dict[str, Any] = parse(row.answer)
    return answer


def keep(tx: Transaction, tenant: str, once: Once, answer: Mapping[str, Any], *, now: datetime) -> None:
    """Keep the answer, in the transaction of the change that it tells of; forget what is too old."""
    row = {
        "tenant": tenant,
        "key": once.key,
        "fingerprint": once.fingerprint,
        "answer": canonical(dict(answer), what="answer"),
        "created_at": timestamp(now),
    }
    old = idempotency_keys.c.created_at < timestamp(now - KEPT)
    same = and_(idempotency_keys.c.tenant == tenant, idempotency_keys.c.key == once.key)
    tx.execute(delete(idempotency_keys).where(or_(old, same)))
    tx.execute(idempotency_keys.insert().values(row))


def numbered(
    tx: Transaction, version: Version, once: Once | None, make: Callable[[], tuple[int, bool]], *, now: datetime
) -> tuple[int, bool]:
    """The number of what `make` adds to a version, and whether it is new; or what the same request added before.

    What it added to a version that was deleted since is not there: the same bytes, pushed again, are another version.
    """
    known = None if once is None else recall(tx, version.tenant, once)
    if known is not None and known["sequence"] == version.sequence:
        return known["number"], known["created"]
    number, created = make()
    if once is not None:
        keep(tx, version.tenant, once, {"number": number, "created": created, "sequence": version.sequence}, now=now)
    return number, created


def answered(tx: Transaction, tenant: str, once: Once) -> tuple[Version, bool] | None:
    """What a request that answers with a version was answered with: as it was then, and whether it was new.

    Raises:
        Conflict: as `recall`.
    """
    answer = recall(tx, tenant, once)
    if answer is None:
        return None
    version = version_at(tx, tenant, answer["adapter"], answer["sequence"])
    return version.with_state(answer), answer["created"]


def remember(tx: Transaction, tenant: str, once: Once, version: Version, created: bool, *, now: datetime) -> None:
    """Keep what `answered` will say."""
    answer = {
        "adapter": version.adapter,
        "sequence": version.sequence,
        "created": created,
        **version.state(),
    }
    keep(tx, tenant, once, answer, now=now)

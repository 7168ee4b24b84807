"""Rows: the SQL of what sessions keep to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Row, and_, bindparam, delete, func, select

from graftwork.db import Transaction
from graftwork.db.keys import rows_at
from graftwork.db.schema import session_pins
from graftwork.traffic.sessions.pin import Pin, Place

_KEY = (session_pins.c.tenant, session_pins.c.session, session_pins.c.route, session_pins.c.rule)
#: Tenant and `session_key`.
Name = tuple[str, str]
Key = tuple[str, str, str, str]


@dataclass(frozen=True)
class Held:
    """A pin, and until when it is held, as `timestamp` writes it."""

    pin: Pin
    expires_at: str


@dataclass(frozen=True)
class Written:
    """What is to be written of a place, and of whom."""

    held: Held
    user_id: str | None


def pins_of(tx: Transaction, tenant: str, session: str, *, now: str) -> dict[Place, Held]:
    """What a session keeps to, of what has not expired."""
    own = and_(session_pins.c.tenant == tenant, session_pins.c.session == session, session_pins.c.expires_at > now)
    return {(row.route, row.rule): _held(row) for row in tx.execute(select(session_pins).where(own))}


def write(tx: Transaction, wanted: Mapping[Key, Written], *, now: str) -> dict[Key, Held]:
    """Write each place unless somebody else has moved it meanwhile; what those hold that were moved."""
    found = {(row.tenant, row.session, row.route, row.rule): _held(row) for row in _at(tx, wanted)}
    lost = {
        key: known
        for key, known in found.items()
        if known.expires_at > now and not _follows(wanted[key].held.pin, known.pin)
    }
    rows = [_row(key, one) for key, one in wanted.items() if key not in lost]
    if rows:
        same = and_(*(column == bindparam(f"k_{column.name}") for column in _KEY))
        tx.execute(delete(session_pins).where(same), [{f"k_{c.name}": row[c.name] for c in _KEY} for row in rows])
        tx.execute(session_pins.insert(), rows)
    return lost


def forget(tx: Transaction, tenant: str, user: str) -> int:
    """Delete all that a user's sessions keep to; how many places."""
    own = and_(session_pins.c.tenant == tenant, session_pins.c.user_id == user)
    return tx.execute(delete(session_pins).where(own)).rowcount


def tenants_of(tx: Transaction) -> Iterator[str]:
    """Those that have sessions, each found by the primary key."""
    query = select(func.min(session_pins.c.tenant))
    last = tx.execute(query).scalar()
    while last is not None:
        yield last
        last = tx.execute(query.where(session_pins.c.tenant > last)).scalar()


def beyond(tx: Transaction, tenant: str, most: int) -> str | None:
    """Until when the first of a tenant's pins is held that is beyond the `most` that are held longest."""
    own = select(session_pins.c.expires_at).where(session_pins.c.tenant == tenant)
    return tx.execute(own.order_by(session_pins.c.expires_at.desc()).offset(most).limit(1)).scalar()


def some_until(tx: Transaction, tenant: str, until: str, limit: int) -> list[Key]:
    """Some of a tenant's pins that are held until then at most, the first to expire first."""
    own = and_(session_pins.c.tenant == tenant, session_pins.c.expires_at <= until)
    query = select(*_KEY).where(own).order_by(session_pins.c.expires_at).limit(limit)
    return [(row.tenant, row.session, row.route, row.rule) for row in tx.execute(query)]


def remove(tx: Transaction, keys: Sequence[Key], until: str) -> None:
    """Delete these, but for those that somebody holds longer by now."""
    same: ColumnElement[bool] = and_(*(column == bindparam(f"k_{column.name}") for column in _KEY))
    told = [dict(zip((f"k_{column.name}" for column in _KEY), key, strict=True)) for key in keys]
    tx.execute(delete(session_pins).where(same, session_pins.c.expires_at <= until), told)


def _at(tx: Transaction, keys: Mapping[Key, Written]) -> Iterator[Row[tuple[object, ...]]]:
    return rows_at(tx, select(session_pins), _KEY, keys)


def _follows(wanted: Pin, known: Pin) -> bool:
    """Whether it is the same pin, or a later one."""
    return wanted == known or wanted.number > known.number


def _held(row: Row[tuple[object, ...]]) -> Held:
    told = row._mapping
    return Held(Pin(*(told[name] for name in ("adapter", "digest", "arm", "rollout", "number"))), told["expires_at"])


def _row(key: Key, one: Written) -> dict[str, object]:
    named = dict(zip((column.name for column in _KEY), key, strict=True))
    return {**named, **vars(one.held.pin), "user_id": one.user_id, "expires_at": one.held.expires_at}

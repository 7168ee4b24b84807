"""Keys: makes, replaces and revokes API keys; a key is given out by the call that made it, and never again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from sqlalchemy import select, update

from graftwork.access import events
from graftwork.access.access import KEYS
from graftwork.access.clock import Clock, timestamp, utc_now
from graftwork.access.default_route import check_default_route
from graftwork.access.keys import Key, hash_of, new_key
from graftwork.access.roles import Role, Scope
from graftwork.db import Database, Transaction
from graftwork.db.schema import api_keys
from graftwork.errors import Conflict, InvalidRequest, NotFound
from graftwork.registry.idempotency import Once, keep, recall
from graftwork.registry.tenancy.users import has_user

CREATED: Final = "key.created"
CHANGED: Final = "key.changed"
ROTATED: Final = "key.rotated"
REVOKED: Final = "key.revoked"


class Keys:
    """Writes keys; a revoked one stays, as the log speaks of it.

    What makes one returns it with its secret; the same request again, under its Idempotency-Key, without: then nobody
    has it, and it is to be rotated.
    """

    def __init__(self, database: Database, clock: Clock = utc_now) -> None:
        self._database = database
        self._clock = clock

    def create(
        self,
        tenant: str,
        *,
        name: str,
        role: Role,
        scopes: tuple[Scope, ...],
        user: str | None = None,
        expires_at: str | None = None,
        default_route: str | None = None,
        actor: str,
        once: Once | None = None,
    ) -> tuple[Key, str | None]:
        """A new key.

        Raises:
            InvalidRequest: it would be over already, no user has that name, or the default route is no name.
        """
        now, default = self._clock(), check_default_route(default_route)
        with self._database.transaction() as tx:
            if once is not None and (known := recall(tx, tenant, once)) is not None:
                return _find(tx, tenant, known["id"]), None
            _check_end(expires_at, timestamp(now))
            if user is not None and not has_user(tx, tenant, user):
                raise InvalidRequest(f"There is no user {user[:200]}; enter them first.", field="user")
            public, token = new_key()
            key = Key(tenant, public, name, role, scopes, user, public, timestamp(now), actor, expires_at)
            key = replace(key, default_route=default)
            _insert(tx, replace(key, hash=hash_of(token)))
            _tell(tx, key, actor, CREATED, key.to_json(timestamp(now)), timestamp(now))
            if once is not None:
                keep(tx, tenant, once, {"id": public}, now=now)
            return key, token

    def rotate(
        self, tenant: str, public: str, overlap: timedelta, *, actor: str, once: Once | None = None
    ) -> tuple[Key, str | None]:
        """A key in place of another, which holds for `overlap` longer at most; all else is the same.

        Raises:
            NotFound: there is no such key.
            Conflict: it is over.
        """
        now = self._clock()
        at = timestamp(now)
        with self._database.transaction() as tx:
            if once is not None and (known := recall(tx, tenant, once)) is not None:
                return _find(tx, tenant, known["id"]), None
            before = _find(tx, tenant, public)
            if (state := before.state(at)) != "active":
                raise Conflict(f"The key {public} is {state}; create another one.")
            fresh, token = new_key()
            key = replace(before, id=fresh, created_at=at, created_by=actor)
            _insert(tx, replace(key, hash=hash_of(token)))
            end = timestamp(now + overlap)
            end = min(end, before.expires_at) if before.expires_at is not None else end
            _set(tx, before, expires_at=end)
            _tell(tx, key, actor, CREATED, key.to_json(at), at)
            _tell(tx, before, actor, ROTATED, {"by": fresh, "expires_at": end}, at)
            if once is not None:
                keep(tx, tenant, once, {"id": fresh}, now=now)
            return key, token

    def change(self, tenant: str, public: str, default_route: str | None, *, actor: str) -> Key:
        """Let a key mean another route, or with None none of its own, where a request names nothing.

        Raises:
            InvalidRequest: it is no name.
            NotFound: there is no such key.
        """
        at, after = timestamp(self._clock()), check_default_route(default_route)
        with self._database.transaction() as tx:
            key = _find(tx, tenant, public)
            if key.default_route != after:
                _set(tx, key, default_route=after)
                told = {"before": {"default_route": key.default_route}, "after": {"default_route": after}}
                _tell(tx, key, actor, CHANGED, told, at)
            return replace(key, default_route=after)

    def revoke(self, tenant: str, public: str, *, actor: str, reason: str | None = None) -> None:
        """End a key at once; no event where it was revoked before.

        Raises:
            NotFound: there is no such key.
        """
        at = timestamp(self._clock())
        with self._database.transaction() as tx:
            key = _find(tx, tenant, public)
            if key.revoked_at is None:
                _set(tx, key, revoked_at=at)
                _tell(tx, key, actor, REVOKED, {"reason": reason}, at)


def _check_end(expires_at: str | None, now: str) -> None:
    if expires_at is not None and expires_at <= now:
        raise InvalidRequest(f"expires_at is {expires_at}, which is past.", field="expires_at")


def _find(tx: Transaction, tenant: str, public: str) -> Key:
    row = tx.execute(select(api_keys).where(api_keys.c.tenant == tenant, api_keys.c.id == public)).first()
    if row is None:
        raise NotFound(f"There is no key {public[:200]}.")
    return Key.from_row(row)


def _insert(tx: Transaction, key: Key) -> None:
    tx.execute(api_keys.insert().values({**vars(key), "scopes": " ".join(key.scopes)}))


def _set(tx: Transaction, key: Key, **values: str | None) -> None:
    tx.execute(update(api_keys).where(api_keys.c.tenant == key.tenant, api_keys.c.id == key.id).values(values))


def _tell(tx: Transaction, key: Key, actor: str, kind: str, payload: Mapping[str, Any], at: str) -> None:
    events.append(tx, key.tenant, actor, kind, f"{KEYS}{key.id}", payload, at=at)

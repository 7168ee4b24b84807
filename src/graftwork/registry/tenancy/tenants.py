"""Tenants: sets them up and changes what is set for them."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from sqlalchemy import delete, select

from graftwork.access import events
from graftwork.access.access import TENANTS
from graftwork.access.clock import Clock, timestamp, utc_now
from graftwork.access.default_route import check_default_route
from graftwork.access.quotas import Quotas
from graftwork.access.tenants import LOCAL, Tenant, check_tenant
from graftwork.db import Database, Transaction
from graftwork.db.schema import tenants
from graftwork.errors import Conflict, NotFound
from graftwork.protocol.canonical import canonical
from graftwork.registry.idempotency import Once, keep, recall

CREATED: Final = "tenant.created"
CHANGED: Final = "tenant.changed"
_SALT_BYTES = 32


class Tenants:
    """Writes tenants; none is ever deleted, for the log speaks of it."""

    def __init__(self, database: Database, clock: Clock = utc_now) -> None:
        self._database = database
        self._clock = clock

    def create(self, wanted: Tenant, *, actor: str, once: Once | None = None) -> tuple[Tenant, bool]:
        """Set up a tenant, and whether it is new: it is not where the same request was made before.

        Raises:
            InvalidRequest: its name is none, or its default route's.
            Conflict: there is one of that name.
        """
        check_tenant(wanted.name)
        wanted = replace(wanted, default_route=check_default_route(wanted.default_route))
        now = self._clock()
        with self._database.transaction() as tx:
            if once is not None and recall(tx, wanted.name, once) is not None:
                return _find(tx, wanted.name), False
            if wanted.name == LOCAL or _row(tx, wanted.name) is not None:
                raise Conflict(f"There is a tenant {wanted.name} already.")
            made = replace(wanted, created_at=timestamp(now), created_by=actor, salt=secrets.token_hex(_SALT_BYTES))
            _write(tx, made)
            _tell(tx, made, actor, CREATED, _told(made), timestamp(now))
            if once is not None:
                keep(tx, made.name, once, {}, now=now)
            return made, True

    def change(self, name: str, changes: Mapping[str, Any], *, actor: str) -> Tenant:
        """Change some of `display_name`, `home_region`, `weight`, `default_route`, where None is none, and some of
        `quotas`, where None is no limit.

        Raises:
            InvalidRequest: the default route is no name.
            NotFound: there is no such tenant.
        """
        at = timestamp(self._clock())
        if "default_route" in changes:
            changes = {**changes, "default_route": check_default_route(changes["default_route"])}
        with self._database.transaction() as tx:
            before = _find(tx, name)
            quotas = Quotas(**{**before.quotas.to_json(), **changes.get("quotas", {})})
            after = replace(before, **{**changes, "quotas": quotas})
            if after == before:
                return before
            if before.created_at is None:  # `local`, of which nothing was ever set
                after = replace(after, created_at=at, created_by=actor, salt=secrets.token_hex(_SALT_BYTES))
            _write(tx, after)
            told_before, told_after = _told(before), _told(after)
            differing = [field for field in told_after if told_before[field] != told_after[field]]
            payload = {
                "before": {field: told_before[field] for field in differing},
                "after": {field: told_after[field] for field in differing},
            }
            _tell(tx, after, actor, CHANGED, payload, at)
            return after


def _find(tx: Transaction, name: str) -> Tenant:
    row = _row(tx, name)
    if row is not None:
        return Tenant.from_row(row)
    if name == LOCAL:
        return Tenant(LOCAL)
    raise NotFound(f"There is no tenant {name[:200]}.")


def _row(tx: Transaction, name: str) -> Any:
    return tx.execute(select(tenants).where(tenants.c.tenant == name)).first()


def _write(tx: Transaction, tenant: Tenant) -> None:
    tx.execute(delete(tenants).where(tenants.c.tenant == tenant.name))
    row = {key: value for key, value in vars(tenant).items() if key != "name"}
    quotas = canonical(tenant.quotas.to_json(), what="quotas")
    tx.execute(tenants.insert().values({**row, "tenant": tenant.name, "quotas": quotas}))


def _told(tenant: Tenant) -> dict[str, Any]:
    return {key: value for key, value in tenant.to_json().items() if key not in ("created_at", "created_by")}


def _tell(tx: Transaction, tenant: Tenant, actor: str, kind: str, payload: Mapping[str, Any], at: str) -> None:
    events.append(tx, tenant.name, actor, kind, f"{TENANTS}{tenant.name}", payload, at=at)

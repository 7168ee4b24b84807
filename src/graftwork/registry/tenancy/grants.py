"""Grants: gives another tenant something of one's own, and takes it back."""

from __future__ import annotations

import secrets
from typing import Any, Final

from sqlalchemy import and_, delete, select

from graftwork.access import events
from graftwork.access.access import GRANTS
from graftwork.access.clock import Clock, timestamp, utc_now
from graftwork.access.grants import VERBS, Grant, Verb, check_pattern
from graftwork.access.tenants import check_tenant
from graftwork.db import Database, Transaction
from graftwork.db.schema import grants
from graftwork.errors import Conflict, InvalidRequest, NotFound
from graftwork.registry.idempotency import Once, keep, recall
from graftwork.registry.owners import GRANT, disown, grant_name

CREATED: Final = "grant.created"
REMOVED: Final = "grant.removed"
_ID_BYTES = 8


class Grants:
    """Writes grants. Whether the other tenant exists is not looked up: that is not the giver's to know."""

    def __init__(self, database: Database, clock: Clock = utc_now) -> None:
        self._database = database
        self._clock = clock

    def create(
        self,
        tenant: str,
        grantee: str,
        pattern: str,
        verbs: tuple[Verb, ...],
        *,
        actor: str,
        once: Once | None = None,
    ) -> tuple[Grant, bool]:
        """Give something, and whether that is new: it is not where the very same was given before.

        Raises:
            InvalidRequest: the tenant is no name or the giver, or the pattern fits no name.
            Conflict: there is a grant of the pattern to that tenant with other verbs.
        """
        check_tenant(grantee)
        check_pattern(pattern)
        if grantee == tenant:
            raise InvalidRequest("A tenant needs no grant for what is its own.", field="tenant")
        now, wanted = self._clock(), tuple(verb for verb in VERBS if verb in verbs)
        with self._database.transaction() as tx:
            if once is not None and (known := recall(tx, tenant, once)) is not None:
                return _find(tx, tenant, known["id"]), False
            if (before := _same(tx, tenant, grantee, pattern)) is not None:
                if before.verbs != wanted:
                    raise Conflict(f"{grantee} has {' '.join(before.verbs)} of {pattern} already; remove that first.")
                return before, False
            grant = Grant(tenant, secrets.token_hex(_ID_BYTES), grantee, pattern, wanted, timestamp(now), actor)
            tx.execute(grants.insert().values({**vars(grant), "verbs": " ".join(wanted)}))
            _tell(tx, grant, actor, CREATED, timestamp(now))
            if once is not None:
                keep(tx, tenant, once, {"id": grant.id}, now=now)
            return grant, True

    def remove(self, tenant: str, number: str, *, actor: str) -> None:
        """Take a grant back.

        Raises:
            NotFound: this tenant gave none of this id.
        """
        with self._database.transaction() as tx:
            grant = _find(tx, tenant, number)
            tx.execute(delete(grants).where(and_(grants.c.tenant == tenant, grants.c.id == number)))
            disown(tx, tenant, [(GRANT, grant_name(grant.grantee, grant.pattern))])
            _tell(tx, grant, actor, REMOVED, timestamp(self._clock()))


def _find(tx: Transaction, tenant: str, number: str) -> Grant:
    row = tx.execute(select(grants).where(grants.c.tenant == tenant, grants.c.id == number)).first()
    if row is None:
        raise NotFound(f"There is no grant {number[:200]}.")
    return Grant.from_row(row)


def _same(tx: Transaction, tenant: str, grantee: str, pattern: str) -> Grant | None:
    where: list[Any] = [grants.c.tenant == tenant, grants.c.grantee == grantee, grants.c.pattern == pattern]
    row = tx.execute(select(grants).where(*where)).first()
    return None if row is None else Grant.from_row(row)


def _tell(tx: Transaction, grant: Grant, actor: str, kind: str, at: str) -> None:
    payload = {"grantee": grant.grantee, "pattern": grant.pattern, "verbs": list(grant.verbs)}
    events.append(tx, grant.tenant, actor, kind, f"{GRANTS}{grant.id}", payload, at=at)

"""Access: who may do what, as one immutable part of the snapshot that requests are decided on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import select

from graftwork.access.grants import Grant, Verb
from graftwork.access.keys import Key, is_it, public_id
from graftwork.access.principal import Principal
from graftwork.access.roles import Right, rights_of
from graftwork.access.tenants import LOCAL, Tenant
from graftwork.access.users import User
from graftwork.db import Transaction
from graftwork.db.schema import api_keys, grants, tenants, users

#: What the events about each of them have before its name.
TENANTS: Final = "tenants/"
KEYS: Final = "keys/"
USERS: Final = "users/"
GRANTS: Final = "grants/"


@dataclass(frozen=True)
class Access:
    """Tenants by name, keys by public id, users by tenant and name, grants by who was given them."""

    tenants: Mapping[str, Tenant] = field(default_factory=lambda: {LOCAL: Tenant(LOCAL)})
    keys: Mapping[str, Key] = field(default_factory=dict)
    users: Mapping[tuple[str, str], User] = field(default_factory=dict)
    grants: Mapping[str, tuple[Grant, ...]] = field(default_factory=dict)

    @property
    def is_set_up(self) -> bool:
        """Whether there ever was a key: from then on nobody gets in without one."""
        return bool(self.keys)

    def has_admin(self, now: str) -> bool:
        """Whether somebody can administer the server with a key."""
        return any(
            one.tenant == LOCAL and one.state(now) == "active" and Right.OPERATE in self._rights(one)
            for one in self.keys.values()
        )

    def identify(self, token: str, now: str) -> Principal | None:
        """Whose key this is; None for one that is unknown, wrong, expired or revoked, after the same work."""
        key = self.keys.get(public_id(token))
        if not is_it(token, key) or key is None or key.state(now) != "active":
            return None
        if key.user is not None and (key.tenant, key.user) not in self.users:
            return None
        return Principal(key.tenant, key.user or f"key:{key.family}", key.user, key.id, self._rights(key))

    def still(self, who: Principal, now: str) -> bool:
        """Whether somebody may still do all that they could when they were identified; without a key nothing ends."""
        if who.key is None:
            return True
        key = self.keys.get(who.key)
        if key is None or key.state(now) != "active" or (key.user and (key.tenant, key.user) not in self.users):
            return False
        return who.rights <= self._rights(key)

    def tenant(self, name: str) -> Tenant:
        """The tenant of this name; one without settings where none was set up."""
        return self.tenants.get(name) or Tenant(name)

    def default_route(self, who: Principal) -> str | None:
        """What somebody's request means that names nothing, by their key, else by their tenant; None for the base."""
        key = self.keys.get(who.key) if who.key is not None else None
        own = key.default_route if key is not None else None
        return own or self.tenant(who.tenant).default_route

    def may(self, tenant: str, verb: Verb, owner: str, adapter: str) -> bool:
        """Whether a grant lets a tenant do this with another's adapter."""
        return any(one.tenant == owner and one.covers(verb, adapter) for one in self.grants.get(tenant, ()))

    def given_by(self, tenant: str) -> Iterator[Grant]:
        """The grants that a tenant gave."""
        return (one for received in self.grants.values() for one in received if one.tenant == tenant)

    def _rights(self, key: Key) -> frozenset[Right]:
        user = self.users.get((key.tenant, key.user)) if key.user is not None else None
        found = rights_of([key.role] if user is None else [key.role, user.role], key.scopes)
        return found if key.tenant == LOCAL else found - {Right.OPERATE}


def read_access(tx: Transaction, known: Any, changed: Set[tuple[str, str]] | None) -> Access:
    """All of it; `known` itself where the log tells of nothing here since."""
    own = (TENANTS, KEYS, USERS, GRANTS)
    if isinstance(known, Access) and changed is not None and not any(about.startswith(own) for _, about in changed):
        return known
    received: dict[str, tuple[Grant, ...]] = {}
    for row in tx.execute(select(grants).order_by(grants.c.tenant, grants.c.id)):
        received[row.grantee] = (*received.get(row.grantee, ()), Grant.from_row(row))
    found = [Tenant.from_row(row) for row in tx.execute(select(tenants))]
    return Access(
        tenants={LOCAL: Tenant(LOCAL)} | {one.name: one for one in found},
        keys={row.id: Key.from_row(row) for row in tx.execute(select(api_keys))},
        users={(row.tenant, row.name): User.from_row(row) for row in tx.execute(select(users))},
        grants=received,
    )

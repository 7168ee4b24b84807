"""tenancy: sets up tenants, their users, keys and grants; who may do what is read from `access.access.Access`."""

from __future__ import annotations

from dataclasses import dataclass

from graftwork.access.clock import Clock, utc_now
from graftwork.db import Database
from graftwork.registry.tenancy.grants import Grants
from graftwork.registry.tenancy.keys import Keys
from graftwork.registry.tenancy.tenants import Tenants
from graftwork.registry.tenancy.users import Users


@dataclass(frozen=True)
class Tenancy:
    """What changes them, in one database; every change writes its event in its transaction."""

    tenants: Tenants
    users: Users
    keys: Keys
    grants: Grants

    @classmethod
    def of(cls, database: Database, clock: Clock = utc_now) -> Tenancy:
        return cls(Tenants(database, clock), Users(database, clock), Keys(database, clock), Grants(database, clock))

"""Desk: one tenant's resources in one open transaction, and who is at work on them."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, fields, replace

from graftwork.access.roles import Right
from graftwork.db import Database, Transaction
from graftwork.db.within import within
from graftwork.registry.descriptions import Descriptions
from graftwork.registry.lifecycle import Lifecycle
from graftwork.registry.registry import Registry
from graftwork.registry.retention.rules import Retention
from graftwork.registry.tags import Tags
from graftwork.registry.tenancy.grants import Grants
from graftwork.registry.tenancy.tenants import Tenants
from graftwork.registry.webhooks.webhooks import Webhooks
from graftwork.traffic.gates.templates import Templates
from graftwork.traffic.promotions.promotions import Promotions
from graftwork.traffic.records.recording import Recordings
from graftwork.traffic.rollouts.rollouts import Rollouts
from graftwork.traffic.routes.routes import Routes
from graftwork.traffic.tasks.tasks import Tasks


@dataclass(frozen=True)
class Services:
    """What reads and writes resources: as the doors of each kind do, by the same rules."""

    registry: Registry
    descriptions: Descriptions
    tags: Tags
    lifecycle: Lifecycle
    retention: Retention
    tasks: Tasks
    templates: Templates
    promotions: Promotions
    routes: Routes
    rollouts: Rollouts
    tenants: Tenants
    grants: Grants
    webhooks: Webhooks
    recordings: Recordings

    @classmethod
    def of(
        cls, database: Database, base: str, *, rollouts: Rollouts, webhooks: Webhooks, recordings: Recordings
    ) -> Services:
        """Those of a database; what is given was made with more than that."""
        return cls(
            Registry(database),
            Descriptions(database),
            Tags(database),
            Lifecycle(database),
            Retention(database),
            Tasks(database),
            Templates(database),
            Promotions(database),
            Routes(database, base),
            rollouts,
            Tenants(database),
            Grants(database),
            webhooks,
            recordings,
        )

    def within(self, tx: Transaction) -> Services:
        """All of them at work in one transaction."""
        return replace(self, **{field.name: within(getattr(self, field.name), tx) for field in fields(self)})


@dataclass(frozen=True)
class Desk:
    """For the time of a transaction."""

    tx: Transaction
    services: Services  #: within it
    base: str  #: the name of the base that is served
    tenant: str
    actor: str
    rights: Set[Right]
    reason: str | None = None

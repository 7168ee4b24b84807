"""RouteTable: all live routes, as a part of the snapshot that requests are decided on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from sqlalchemy import and_

from graftwork.db import Transaction
from graftwork.db.schema import routes
from graftwork.registry.snapshot import Changed
from graftwork.traffic.routes.route import Route
from graftwork.traffic.routes.rows import live_routes
from graftwork.traffic.routes.subjects import route_in


@dataclass(frozen=True)
class RouteTable:
    """Immutable; each route with its live revision."""

    routes: Mapping[tuple[str, str], Route] = field(default_factory=dict)  #: by (tenant, name)

    def find(self, tenant: str, name: str) -> Route | None:
        return self.routes.get((tenant, name))

    def of(self, tenant: str) -> Mapping[str, Route]:
        """A tenant's routes by name, sorted."""
        return self._by_tenant.get(tenant, {})

    @cached_property
    def _by_tenant(self) -> dict[str, dict[str, Route]]:
        found: dict[str, dict[str, Route]] = {}
        for (tenant, name), route in sorted(self.routes.items()):
            found.setdefault(tenant, {})[name] = route
        return found


def read_routes(tx: Transaction, known: RouteTable | None, changed: Changed) -> RouteTable:
    """The table of this moment; only routes that the log speaks of are read again."""
    if known is None or changed is None:
        return RouteTable({(route.tenant, route.name): route for route in live_routes(tx)})
    keys = {(tenant, name) for tenant, subject in changed if (name := route_in(subject)) is not None}
    if not keys:
        return known
    found = dict(known.routes)
    for tenant, name in keys:
        found.pop((tenant, name), None)
        own = and_(routes.c.tenant == tenant, routes.c.name == name)
        found |= {(route.tenant, route.name): route for route in live_routes(tx, own)}
    return RouteTable(found)

"""Routes: the resources that say by rules which version answers under a name."""

from __future__ import annotations

from graftwork.access.clock import Clock, utc_now
from graftwork.db import Database, Transaction
from graftwork.errors import Conflict
from graftwork.protocol.routes import RouteResource, RouteSpec
from graftwork.registry.bases import has_name
from graftwork.traffic.resources import rows
from graftwork.traffic.resources.holding import holding
from graftwork.traffic.resources.kind import Kind
from graftwork.traffic.resources.resources import Resources
from graftwork.traffic.routes.arms import USER
from graftwork.traffic.routes.checks import check_route_name, checked
from graftwork.traffic.routes.route import Route

ROUTE: Kind[RouteSpec, Route] = Kind(
    word="route",
    many="routes",
    noun="route",
    listed_by="graftwork route list",
    spec=RouteSpec,
    document=RouteResource,
    made=Route,
    check_name=check_route_name,
    text=checked,
)
#: Whatever a target resolves to is needed; targets by user need none in particular.
read_route_holders = holding(
    ROUTE, "route", lambda route: {arm.reference for arm in route.arms if USER not in arm.reference}, "leads to"
)


class Routes(Resources[RouteSpec, Route]):
    """An adapter whose name a route has is reached by that name again when the route is removed."""

    def __init__(self, database: Database, base: str, clock: Clock = utc_now) -> None:
        """`base` is the name of the base that is served, which no route may have."""
        super().__init__(ROUTE, database, clock)
        self._base = base

    def check_free(self, tx: Transaction, tenant: str, name: str) -> None:
        """Raises Conflict: a base model has the name."""
        if name == self._base or has_name(tx, tenant, name):
            raise Conflict(f"{name} is the name of a base model; give the route another one.")


def has_route(tx: Transaction, tenant: str, name: str) -> bool:
    """Whether a route resource of this tenant is called so."""
    return rows.find_live(tx, ROUTE, tenant, name) is not None

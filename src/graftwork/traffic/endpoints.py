"""endpoints: which versions the routes and rollouts of a tenant lead to now; pure."""

from __future__ import annotations

from collections.abc import Iterator

from graftwork.errors import NotFound
from graftwork.registry.lineage.endpoints import Endpoint, Endpoints
from graftwork.registry.reference import parse_reference
from graftwork.registry.snapshot import Snapshot
from graftwork.traffic.rollouts.live import LiveRollouts
from graftwork.traffic.routes.arms import USER
from graftwork.traffic.routes.route import Route
from graftwork.traffic.routes.table import RouteTable


def endpoints(snapshot: Snapshot, tenant: str) -> Endpoints:
    """What targets mean now, but for those by user, which name no version in particular; and all arms of rollouts that
    run, whatever their weights are.
    """
    routes = snapshot.part(RouteTable).of(tenant)
    by_rules = [one for route in routes.values() for one in _led_to(snapshot, route)]
    by_rollouts = [
        Endpoint(route, version.digest, rollout.created_at, rollout.created_by)
        for (owner, route), rollout in snapshot.part(LiveRollouts).by_route.items()
        if owner == tenant
        for version in rollout.arms.values()
    ]
    return Endpoints((*by_rules, *by_rollouts), frozenset(routes))


def _led_to(snapshot: Snapshot, route: Route) -> Iterator[Endpoint]:
    since = route.updated_at or route.revision.created_at, route.updated_by or route.revision.created_by
    for text in dict.fromkeys(arm.reference for arm in route.arms if USER not in arm.reference):
        reference = parse_reference(text)
        if reference.tenant not in (None, route.tenant):
            continue  # another tenant's versions are in that one's graph
        try:
            version = snapshot.resolve(route.tenant, reference)
        except NotFound:  # the base, or what is not there yet
            continue
        yield Endpoint(route.name, version.digest, *since)

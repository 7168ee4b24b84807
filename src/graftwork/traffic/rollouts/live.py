"""LiveRollouts: the part of a snapshot that says which arm of a rollout answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from graftwork.db import Transaction
from graftwork.registry.snapshot import Changed, Snapshot
from graftwork.traffic.live_arms import LiveArm
from graftwork.traffic.mirror import Mirror
from graftwork.traffic.rollouts import rows
from graftwork.traffic.rollouts.rollout import Rollout
from graftwork.traffic.rollouts.subjects import route_in

#: Tenant, route, status, and the share of the keys that each arm has.
Told = tuple[str, str, str, Mapping[str, float]]


@dataclass(frozen=True)
class LiveRollouts:
    """Every rollout that has not ended, by (tenant, route)."""

    by_route: Mapping[tuple[str, str], Rollout] = field(default_factory=dict)

    def arms(self, tenant: str, route: str) -> Sequence[LiveArm] | None:
        """The arms of a route, the stable one last; their slices cover [0, 1). None where nothing is rolled out."""
        found = self.by_route.get((tenant, route))
        return None if found is None else found.live_arms

    def mirror(self, tenant: str, route: str) -> Mirror | None:
        """What is copied of the requests of a route."""
        found = self.by_route.get((tenant, route))
        return None if found is None else found.mirror


def read_live(tx: Transaction, known: Any, changed: Changed) -> LiveRollouts:
    """A `ReadPart`: only rollouts that the log has spoken of are read again."""
    if changed is None or known is None:
        return LiveRollouts({(one.tenant, one.route): one for one in rows.all_live(tx)})
    keys = {(tenant, route) for tenant, subject in changed if (route := route_in(subject)) is not None}
    if not keys:
        assert isinstance(known, LiveRollouts), "it was read here"
        return known
    kept = {key: one for key, one in known.by_route.items() if key not in keys}
    return LiveRollouts({**kept, **{(one.tenant, one.route): one for one in rows.live_of(tx, keys)}})


def told_of(snapshot: Snapshot) -> Iterator[Told]:
    """What metrics say of each live rollout."""
    for one in snapshot.part(LiveRollouts).by_route.values():
        yield one.tenant, one.route, one.state.status, {name: one.state.share(name) for name in one.arms}

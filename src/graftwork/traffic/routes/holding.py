"""read_route_holders: which versions the live routes of a tenant lead to, so that they are not deleted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from graftwork.db import Transaction
from graftwork.db.schema import routes
from graftwork.registry.reference import Selector, parse_reference
from graftwork.registry.retention.holders import Claims, Holder, HolderRule
from graftwork.registry.versions import Version
from graftwork.traffic.routes.arms import USER
from graftwork.traffic.routes.rows import live_routes


def read_route_holders(tx: Transaction, tenant: str) -> HolderRule:
    """Who needs a version because a target of theirs resolves to it now; targets by user need none in particular."""
    named: dict[str, set[tuple[str, Selector]]] = defaultdict(set)
    for route in live_routes(tx, routes.c.tenant == tenant):
        for text in {arm.reference for arm in route.arms if USER not in arm.reference}:
            reference = parse_reference(text)
            if reference.tenant in (None, tenant):
                named[reference.name].add((route.name, reference.selector))

    def led_to(claims: Claims, version: Version) -> Iterator[Holder]:
        for name, selector in sorted(named.get(version.adapter, ()), key=str):
            found = claims.view.find(selector)
            if found is not None and found.sequence == version.sequence:
                yield Holder("route", version.label, name, f"the route {name} leads to {version.label}")

    return led_to

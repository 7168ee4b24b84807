"""AliasPointer: an implicit route means the `@production` of the adapter whose name it is."""

from __future__ import annotations

from typing import Any

from graftwork.access.names import check_name
from graftwork.db import Transaction
from graftwork.errors import Conflict
from graftwork.registry.changes import apply
from graftwork.registry.pointers import PRODUCTION, plan_promote
from graftwork.registry.reading import find, parsed, view_for, view_of
from graftwork.registry.reference import Reference, Sequence
from graftwork.registry.versions import Version
from graftwork.traffic.rollouts.rollout import ArmVersion


class AliasPointer:
    """A `Pointer`. To move it is to promote: stage, `@production` and `@previous`, by the policy that holds then."""

    def target(self, tx: Transaction, tenant: str, route: str) -> tuple[str, Version]:
        check_name(route, what="route")
        production = view_of(tx, tenant, route).production
        if production is None:
            raise Conflict(f"{route} has nothing in production that a rollout could lead away from; promote a version.")
        return f"{route}@{PRODUCTION}", production

    def candidate(self, tx: Transaction, tenant: str, route: str, reference: str) -> Version:
        wanted = parsed(reference)
        if wanted.name != route:
            raise Conflict(
                f"{reference} is not a version of {route}, which is all that the route of its name can mean."
            )
        return find(tx, view_for(tx, tenant, wanted), wanted)

    def move(self, tx: Transaction, tenant: str, route: str, to: ArmVersion, **told: Any) -> None:
        view = view_of(tx, tenant, to.adapter)
        now = find(tx, view, Reference(None, to.adapter, Sequence(to.sequence)))  # as it stands in this transaction
        apply(tx, view, plan_promote(view.aliases, now, view.standing.policy), **told)

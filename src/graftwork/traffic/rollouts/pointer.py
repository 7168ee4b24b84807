"""Pointer: what a route means, and how a rollout moves that; all in the transaction of the rollout's own change."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

from graftwork.access.names import check_name
from graftwork.db import Transaction
from graftwork.errors import Conflict, NotFound
from graftwork.registry.changes import apply
from graftwork.registry.pointers import PRODUCTION, plan_alias, plan_promote
from graftwork.registry.reading import find, parsed, view_for, view_of
from graftwork.registry.reference import Alias, Newest, Reference, Sequence
from graftwork.registry.rules.policy import require
from graftwork.registry.snapshot import Snapshot
from graftwork.registry.versions import Version
from graftwork.traffic.resources.rows import find_live
from graftwork.traffic.rollouts.rollout import ArmVersion
from graftwork.traffic.routes.arms import USER
from graftwork.traffic.routes.retarget import retarget, sole_targets
from graftwork.traffic.routes.routes import ROUTE
from graftwork.traffic.routes.table import RouteTable

#: Selectors of references that name a pointer of the registry; what names a version is moved in the route itself.
_POINTERS: Final = (Newest, Alias)


def target(tx: Transaction, tenant: str, route: str, said: str | None) -> tuple[str, Version]:
    """The reference that a route's requests go to, of several the one `said`, and the version that it means now.

    An implicit route means the `@production` of the adapter whose name it is.

    Raises:
        NotFound: there is no such route. Conflict: it means no one version, or not what is said.
    """
    check_name(route, what="route")
    found = find_live(tx, ROUTE, tenant, route)
    if found is None:
        return _implicit(tx, tenant, route, said)
    known = [one for one in sole_targets(found) if USER not in one]
    if not known:
        raise Conflict(
            f"A rollout of the route {route} would move nobody: it moves what a rule leads to alone, and every rule of "
            "this one splits among several targets, goes by the user's id, or refuses. Give a rule one target, or set "
            "its weights by `graftwork route set`."
        )
    named = [one for one in known if said in (None, one)]
    if len(named) != 1:
        raise Conflict(
            f"The route {route} leads to {', '.join(known) or 'no version alone'}: say in spec.stable which of these, "
            "as the route has it, the rollout leads away from."
        )
    return named[0], _version(tx, tenant, named[0])


def candidate(tx: Transaction, tenant: str, reference: str, stable: str) -> Version:
    """The version that may take the place of what `stable` means.

    Raises:
        NotFound: there is none. Conflict: an alias cannot name it. Forbidden: the policy does not let it serve.
    """
    wanted, pointer = parsed(reference), parsed(stable)
    if isinstance(pointer.selector, _POINTERS) and wanted.name != pointer.name:
        raise Conflict(f"{reference} is not a version of {pointer.name}, which is all that {stable} can mean.")
    view = view_for(tx, tenant, wanted)
    found = find(tx, view, wanted)
    require("serving", found, view.standing.policy)
    return found


def meant(tx: Transaction, tenant: str, route: str) -> tuple[Version, ...]:
    """The versions that a route leads to alone now; of an implicit one that in production."""
    found = find_live(tx, ROUTE, tenant, route)
    references = [f"{route}@{PRODUCTION}"] if found is None else [one for one in sole_targets(found) if USER not in one]
    versions = []
    for one in references:
        with suppress(NotFound):
            versions.append(_version(tx, tenant, one))
    return tuple(versions)


def move(tx: Transaction, tenant: str, route: str, stable: str, to: ArmVersion, **told: Any) -> None:
    """Let the route mean `to`: its alias, where `stable` is one, else its rules; `told` are actor, reason and at.

    `@production` moves as by any promotion: with the stage, and by the policy that holds now.

    Raises:
        Forbidden: the policy does not allow it.
    """
    pointer = parsed(stable)
    if not isinstance(pointer.selector, _POINTERS):
        found = find_live(tx, ROUTE, tenant, route)
        assert found is not None, "only a route's rules name versions"
        retarget(tx, found, stable, to.label, **told)
        return
    view = view_of(tx, tenant, to.adapter)
    version = find(tx, view, Reference(None, to.adapter, Sequence(to.sequence)))
    if isinstance(pointer.selector, Newest) or pointer.selector.name == PRODUCTION:
        change = plan_promote(view.aliases, version, view.standing.policy)
    else:
        change = plan_alias(view.aliases, pointer.selector.name, version)
    apply(tx, view, change, **told)


def leads_to(snapshot: Snapshot, tenant: str, route: str, stable: str) -> bool:
    """Whether the route's requests still go to that reference, whatever it means."""
    found = snapshot.part(RouteTable).find(tenant, route)
    return stable == f"{route}@{PRODUCTION}" if found is None else stable in sole_targets(found)


def _implicit(tx: Transaction, tenant: str, route: str, said: str | None) -> tuple[str, Version]:
    production = view_of(tx, tenant, route).production
    if production is None:
        raise Conflict(f"{route} has nothing in production that a rollout could lead away from; promote a version.")
    if said is not None and _version(tx, tenant, said).digest != production.digest:
        raise Conflict(f"{route} means {production.label} now, and not {said}: promote that one first.")
    return f"{route}@{PRODUCTION}", production


def _version(tx: Transaction, tenant: str, reference: str) -> Version:
    wanted = parsed(reference)
    return find(tx, view_for(tx, tenant, wanted), wanted)

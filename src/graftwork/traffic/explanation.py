"""explain: what a route would decide of a request, rule by rule, and what each arm leads to now; pure."""

from __future__ import annotations

from typing import Any

from graftwork.errors import GraftworkError, NotFound, RouteRefused
from graftwork.protocol.routes import Defaults
from graftwork.traffic.choice import Resolver, choose
from graftwork.traffic.decision import Asked
from graftwork.traffic.live_arms import LiveArms, point_in
from graftwork.traffic.routes.arms import Arm
from graftwork.traffic.routes.circumstances import Circumstances
from graftwork.traffic.routes.route import Route
from graftwork.traffic.routes.table import RouteTable


def explain(
    name: str,
    seen: Circumstances,
    *,
    tenant: str,
    base: str,
    versions: Resolver,
    routes: RouteTable,
    rollouts: LiveArms | None = None,
) -> dict[str, Any]:
    """Who would answer, as `protocol.route_explanation.Explanation` has it.

    Raises:
        UnknownModel: there is no route of this name, implicit ones included.
    """
    told: dict[str, Any] = dict.fromkeys(
        ("revision", "rule", "arm", "reference", "model", "digest", "refusal", "error")
    )
    told |= {"route": name, "defaults": {}, "rules": [], "arms": []}
    told |= {"key": seen.split_key, "point": point_in(tenant, name, seen.split_key)}
    asked: dict[str, Any] = {"tenant": tenant, "base": base, "versions": versions}
    route = routes.find(tenant, name)
    if route is not None:
        ruling = route.ruling(seen)
        told |= {"revision": route.revision.number, "rule": ruling.rule, "rules": _rules(route, seen)}
        told |= {"defaults": defaults_json(ruling.defaults), "arms": [_arm(one, seen, asked) for one in ruling.arms]}
    try:
        found = choose(Asked(model=name, seen=seen), **asked, routes=routes, rollouts=rollouts)
    except RouteRefused as error:
        return told | {"refusal": {"status": error.status, "message": error.message}}
    except NotFound as error:
        if route is None:
            raise
        return told | {"error": error.message}
    live = rollouts.arms(tenant, name) if rollouts is not None and found.rollout is not None else None
    if live:
        told |= {"arms": [_arm(one, seen, asked) for one in live]}
    return told | {"arm": found.arm, "reference": found.reference, "model": found.model, "digest": found.digest}


def unresolved(route: Route, **asked: Any) -> list[str]:
    """What is wrong with the targets of a route now, each told once; those by user can only be told by request."""
    found = {arm.reference: _arm(arm, Circumstances(), asked) for arm in route.arms if "{" not in arm.reference}
    return [f"{reference} names no version" for reference, one in found.items() if one["model"] is None]


def defaults_json(defaults: Defaults) -> dict[str, Any]:
    return defaults.model_dump(by_alias=True, exclude_none=True, exclude_unset=True)


def _rules(route: Route, seen: Circumstances) -> list[dict[str, Any]]:
    return [
        {
            "rule": one.name,
            "fits": one.fits,
            "action": one.action,
            "matches": [{"fits": not why, "why": list(why)} for why in one.matches],
        }
        for one in route.tried(seen)
    ]


def _arm(arm: Arm, seen: Circumstances, asked: dict[str, Any]) -> dict[str, Any]:
    told = {"arm": arm.name, "reference": arm.reference, "share": round(arm.share, 9)}
    try:
        text = arm.reference.replace("{user}", seen.user or "")
        found = choose(Asked(text) if text == asked["base"] else Asked(adapter_id=text), **asked)
    except GraftworkError:
        return {**told, "model": None, "digest": None}
    return {**told, "model": found.model, "digest": found.digest}

"""retarget: another reference in the place of one that a route's rules lead to alone, as a new revision of it."""

from __future__ import annotations

from graftwork.db import Transaction
from graftwork.protocol.routes import Rule
from graftwork.traffic.resources.change import write
from graftwork.traffic.routes.route import Route
from graftwork.traffic.routes.routes import ROUTE


def sole_targets(route: Route) -> tuple[str, ...]:
    """The references that some rule leads to and to nothing else, each once, in order."""
    arms = (rule.targets for rule in route.spec.rules if rule.targets is not None and len(rule.targets) == 1)
    return tuple(dict.fromkeys(target.reference for (target,) in arms))


def retarget(
    tx: Transaction, route: Route, before: str, after: str, *, actor: str, reason: str | None, at: str
) -> None:
    """Make a revision live in which those of `sole_targets` that were `before` are `after`; all else is as it was.

    In the transaction of whoever decides it, in which `route` is the live revision.
    """
    spec = route.spec.model_copy(update={"rules": [_led(rule, before, after) for rule in route.spec.rules]})
    key = route.tenant, route.name
    write(tx, ROUTE, key, route, spec, ROUTE.text(spec), actor=actor, reason=reason, at=at)


def _led(rule: Rule, before: str, after: str) -> Rule:
    if rule.targets is None or [one.reference for one in rule.targets] != [before]:
        return rule
    return rule.model_copy(update={"targets": [rule.targets[0].model_copy(update={"reference": after})]})

"""retarget: another reference in the place of one that a route's rules lead to alone, as a new revision of it."""

from __future__ import annotations

from graftwork.db import Transaction
from graftwork.db.canonical import sha256
from graftwork.protocol.routes import Rule
from graftwork.traffic.routes import rows
from graftwork.traffic.routes.checks import checked
from graftwork.traffic.routes.route import Revision, Route
from graftwork.traffic.routes.routes import move
from graftwork.traffic.routes.subjects import ROUTE_SET


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
    text = checked(spec)
    number = rows.last_number(tx, route.tenant, route.name) + 1
    made = Route(route.tenant, route.name, Revision(number, sha256(text), at, actor, reason), spec)
    rows.insert_revision(tx, made, text)
    move(tx, ROUTE_SET, (route.tenant, route.name), route, made, actor=actor, reason=reason, at=at)


def _led(rule: Rule, before: str, after: str) -> Rule:
    if rule.targets is None or [one.reference for one in rule.targets] != [before]:
        return rule
    return rule.model_copy(update={"targets": [rule.targets[0].model_copy(update={"reference": after})]})

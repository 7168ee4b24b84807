"""check: what the schema of a route cannot say by itself: its size, its names, and that its references can be read."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from graftwork.access.names import DEFAULT, check_name
from graftwork.errors import InvalidRequest, InvalidResource
from graftwork.protocol.canonical import canonical
from graftwork.protocol.routes import MAX_SPEC_BYTES, RouteSpec, Rule
from graftwork.registry.reference import parse_reference
from graftwork.traffic.routes.arms import USER, arms_of


def check_route_name(name: str) -> str:
    """The name of a route, as given; raises InvalidRequest."""
    check_name(name, what="route")
    if name == DEFAULT:
        raise InvalidRequest("The route name 'default' is reserved: as a model it means no name at all.", field="route")
    return name


def checked(spec: RouteSpec) -> str:
    """The canonical JSON of a spec that can be applied.

    Raises:
        InvalidResource: saying which field is wrong.
    """
    text = canonical(spec.to_json(), what="spec")
    if len(text.encode()) > MAX_SPEC_BYTES:
        raise InvalidResource(f"spec has {len(text.encode())} bytes; a route may have {MAX_SPEC_BYTES}.", field="spec")
    seen: set[str] = set()
    for index, rule in enumerate(spec.rules):
        name = rule.name or f"rule-{index + 1}"
        if name in seen:
            raise InvalidResource(f"Two rules are called {name}.", field=f"spec.rules.{index}.name")
        seen.add(name)
        _check_rule(rule, f"spec.rules.{index}")
    return text


def _check_rule(rule: Rule, where: str) -> None:
    if rule.name is not None:
        _about(f"{where}.name", partial(check_name, rule.name, what="rule"))
    for at, target in enumerate(rule.targets or ()):
        if target.arm is not None:
            _about(f"{where}.targets.{at}.arm", partial(check_name, target.arm, what="arm"))
        _about(f"{where}.targets.{at}.reference", partial(parse_reference, target.reference.replace(USER, "user")))
    if rule.targets:
        _about(f"{where}.targets", partial(arms_of, rule.targets))


def _about(field: str, check: Callable[[], object]) -> None:
    try:
        check()
    except InvalidRequest as error:
        raise InvalidResource(f"{field}: {error.message}", field=field) from error

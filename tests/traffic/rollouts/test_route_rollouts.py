"""Rollouts of routes of their own: what the rules lead to is moved, as an alias or as a new revision of the route."""

from __future__ import annotations

from typing import Any

import pytest

from graftwork.errors import Conflict
from graftwork.protocol.routes import RouteSpec
from graftwork.traffic.rollouts.rollout import Rollout
from graftwork.traffic.routes.routes import Routes
from support.rollouts import Bench, canary, hold, spec, weight

HALF = canary(weight(50), hold())


def route(bench: Bench, *rules: dict[str, Any]) -> Routes:
    """The route `front` with these rules."""
    routes = Routes(bench.desk.database, "tiny", bench.desk.clock)
    routes.set("local", "front", RouteSpec.model_validate({"rules": list(rules)}), actor="ann")
    return routes


def to(*references: str, **more: Any) -> dict[str, Any]:
    return {"targets": [{"reference": one} for one in references], **more}


def start(bench: Bench, *candidates: str, stable: str | None = None) -> Rollout:
    told = spec("front", HALF, *candidates).model_copy(update={"stable": stable})
    return bench.rollouts.start("local", told, actor="ann", reason=None, once=None)


def finish(bench: Bench) -> Rollout:
    bench.controller.look()
    assert len(bench.arms(model="front")) == 2
    bench.rollouts.resume("local", "front", actor="ann")
    bench.controller.look()
    return bench.rollouts.get("local", "front")


def test_a_route_that_leads_to_an_alias_ends_with_the_alias_moved_and_its_rules_as_they_were(bench: Bench) -> None:
    bench.desk.registry.set_alias("local", "support", "champion", "support:1.0.0", actor="ann")
    routes = route(bench, to("support@champion"))
    start(bench, "support:2.0.0")
    assert finish(bench).state.status == "promoted"
    assert set(bench.arms(model="front")) == {"support:2.0.0"}
    assert bench.desk.registry.resolve("local", "support@champion").semver == "2.0.0"
    assert bench.desk.registry.resolve("local", "support@production").semver == "1.0.0"
    assert routes.show("local", "front").revision.number == 1


def test_a_route_that_leads_to_a_version_ends_with_a_revision_that_leads_to_the_other(bench: Bench) -> None:
    bench.desk.push(7, "billing", semver="1.0.0")
    only = {"name": "german", "matches": [{"locale": "de"}]}
    routes = route(bench, to("support:3.0.0", **only), to("support:1.0.0"))
    with pytest.raises(Conflict, match=r"say in spec\.stable"):
        start(bench, "billing:1.0.0")
    start(bench, "billing:1.0.0", stable="support:1.0.0")
    assert finish(bench).state.status == "promoted"
    assert set(bench.arms(model="front")) == {"billing:1.0.0"}
    after = routes.show("local", "front")
    assert (after.revision.number, after.live) == (2, True)
    assert [rule.targets[0].reference for rule in after.spec.rules if rule.targets] == [
        "support:3.0.0",
        "billing:1.0.0",
    ]
    routes.rollback("local", "front", actor="ann")
    assert set(bench.arms(model="front")) == {"support:1.0.0"}


def test_a_route_that_was_set_anew_meanwhile_ends_the_rollout(bench: Bench) -> None:
    route(bench, to("support:1.0.0"))
    start(bench, "support:2.0.0")
    bench.controller.look()
    route(bench, to("support:3.0.0"))
    assert set(bench.arms(model="front")) == {"support:3.0.0"}
    with pytest.raises(Conflict, match="leads to support:3"):
        bench.rollouts.promote("local", "front", actor="ann")
    bench.controller.look()
    ended = bench.rollouts.get("local", "front").state
    assert (ended.status, ended.reason) == ("superseded", "front no longer leads to support:1.0.0.")


def test_an_alias_takes_no_version_of_another_adapter_and_a_split_route_says_that_it_is_one(bench: Bench) -> None:
    bench.desk.push(7, "billing", semver="1.0.0")
    route(bench, to("support"))
    with pytest.raises(Conflict, match="is not a version of support"):
        start(bench, "billing:1.0.0")
    route(bench, to("support:1.0.0", "support:2.0.0"))
    with pytest.raises(Conflict, match=r"move nobody: .* splits among several targets"):
        start(bench, "support:3.0.0")

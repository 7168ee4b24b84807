"""Routes in a database: revisions that nobody changes, a pointer with one winner, and the snapshot that follows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any
from zoneinfo import available_timezones

import pytest

from graftwork.errors import Conflict, Held, InvalidRequest, InvalidResource
from graftwork.models.base_identity import BaseIdentity
from graftwork.protocol.routes import MAX_ALL_MATCHES, MAX_RULES, MAX_SPEC_BYTES, RouteResource, RouteSpec
from graftwork.registry.bases import Bases
from graftwork.registry.retention.deletion import Deletions
from graftwork.registry.snapshot import SnapshotReader
from graftwork.traffic.routes.arms import arms_of
from graftwork.traffic.routes.checks import checked
from graftwork.traffic.routes.routes import Routes, has_route, read_route_holders
from graftwork.traffic.routes.table import RouteTable, read_routes
from support.databases import NewDatabase
from support.desk import Desk


def spec(*references: str) -> RouteSpec:
    return RouteSpec.model_validate({"rules": [{"targets": [{"reference": one}]} for one in references]})


ZONES: list[str] = sorted(available_timezones())


class Shop(Desk):
    """A desk with routes."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.routes = Routes(self.database, "tiny", self.clock)
        self.snapshots = SnapshotReader(self.database, {RouteTable: read_routes})

    def put(self, name: str, *references: str, **more: Any) -> int:
        return self.routes.set("local", name, spec(*references), actor="me", **more)[0].revision.number

    def live(self, name: str) -> int | None:
        found = self.snapshots.current().part(RouteTable).find("local", name)
        return found.revision.number if found else None


@pytest.fixture
def shop(new_database: NewDatabase) -> Iterator[Shop]:
    with new_database() as url:
        made = Shop(url)
        yield made
        made.database.close()


def test_bases_and_routes_share_their_names_in_either_order(shop: Shop) -> None:
    bases = Bases(shop.database, shop.clock, has_route)
    bases.register("local", "first", identity(), actor="me")
    shop.put("second", "tone")
    with pytest.raises(Conflict, match="base model"):
        shop.put("first", "tone")
    with pytest.raises(Conflict, match="name of a route"):
        bases.register("local", "second", identity(), actor="me")
    for name in ("tiny", "default", "Upper", "latest"):
        with pytest.raises((Conflict, InvalidRequest)):
            shop.put(name, "tone")


def identity() -> BaseIdentity:
    return BaseIdentity("hub/tiny", None, "Llama", "sha256:" + "d" * 64, "sha256:" + "e" * 64)


def test_what_a_live_route_leads_to_stays_and_what_it_led_to_may_go(shop: Shop) -> None:
    for content in (1, 2, 3):
        shop.push(content)
    deletions = Deletions(shop.database, shop.clock, [read_route_holders])
    shop.put("a", "tone:1.0.0", "tone:1.1.0", "user-{user}")
    shop.put("b", "tone:1.0.0")
    with pytest.raises(Held) as held:
        deletions.delete("local", "tone:1.0.0", actor="me")
    assert [one["name"] for one in held.value.holders] == ["a", "b"]
    with pytest.raises(Held):
        deletions.delete_adapter("local", "tone", actor="me")
    shop.put("a", "tone:1.1.0")
    shop.routes.remove("local", "b", actor="me")
    assert deletions.delete("local", "tone:1.0.0", actor="me").semver == "1.0.0"


def rules(count: int, matches: int = 0, values: int = 0) -> dict[str, Any]:
    match = {"user": [f"{number:0250}" for number in range(values)]} if values else {"task": "a"}
    return {"rules": [{"matches": [match] * matches, "next": True}] * count}


@pytest.mark.parametrize(
    ("fits", "too_much"),
    [
        (rules(MAX_RULES), rules(MAX_RULES + 1)),
        (rules(MAX_ALL_MATCHES // 16, 16), rules(MAX_ALL_MATCHES // 16 + 1, 16)),
        (rules(1, 16), rules(1, 17)),
        (rules(1, 1, 64), rules(1, 1, 65)),
        (rules(MAX_SPEC_BYTES // (64 * 260), 1, 64), rules(MAX_SPEC_BYTES // (64 * 250) + 1, 1, 64)),
        ({"rules": [{"targets": [{"reference": "a"}] * 16}]}, {"rules": [{"targets": [{"reference": "a"}] * 17}]}),
        (
            {"rules": [{"targets": [{"reference": "a", "weight": 1_000_000}]}]},
            {"rules": [{"targets": [{"reference": "a", "weight": 1_000_001}]}]},
        ),
    ],
    ids=["rules", "all matches", "matches", "values", "bytes", "targets", "weight"],
)
def test_limits_hold_at_and_over(fits: dict[str, Any], too_much: dict[str, Any]) -> None:
    checked(read(fits))
    with pytest.raises(InvalidResource):
        checked(read(too_much))


def weighted(*weights: object) -> dict[str, Any]:
    targets = [{"reference": f"tone:{number}.0.0", "weight": one} for number, one in enumerate(weights, 1)]
    return {"rules": [{"targets": [{key: it for key, it in one.items() if it is not None} for one in targets]}]}


@pytest.mark.parametrize(
    ("weights", "shares"),
    [((60, 60), (0.5, 0.5)), ((1, 2), (1 / 3, 2 / 3)), ((1000,), (1.0,)), ((None, None), (0.5, 0.5))],
)
def test_weights_are_relative_whatever_they_add_up_to(weights: tuple[Any, ...], shares: tuple[float, ...]) -> None:
    targets = read(weighted(*weights)).rules[0].targets
    assert targets is not None
    assert [arm.share for arm in arms_of(targets)] == pytest.approx(shares)


@pytest.mark.parametrize("weights", [(0, 0), (-1, 101), (1, None), (2**31, 1), (0.5, 0.5), ("60", 40), (True, 1)])
def test_weights_that_say_nothing_are_refused(weights: tuple[object, ...]) -> None:
    with pytest.raises(InvalidResource, match=r"rules\.0"):
        read(weighted(*weights))


@pytest.mark.parametrize(
    ("what", "count", "match"),
    [
        ("header names", 32, lambda number: {"headers": [{"name": f"X-{number}", "present": True}]}),
        ("regular expressions", 8, lambda number: {"headers": [{"name": "X", "regex": f"a{number}"}]}),
        ("time zones", 8, lambda number: {"times": [{"zone": ZONES[number]}]}),
    ],
)
def test_what_costs_each_request_something_is_limited_by_route(
    what: str, count: int, match: Callable[[int], dict[str, Any]]
) -> None:
    made = [{"matches": [match(number)], "next": True} for number in range(count + 1)]
    checked(read({"rules": made[:-1]}))
    with pytest.raises(InvalidResource, match=f"{count + 1} different {what}"):
        read({"rules": made})


def read(found: dict[str, Any]) -> RouteSpec:
    document = {"apiVersion": "adapters.graftwork.dev/v1alpha1", "kind": "Route", "metadata": {"name": "a"}}
    return RouteResource.read(json.dumps({**document, "spec": found}).encode()).spec

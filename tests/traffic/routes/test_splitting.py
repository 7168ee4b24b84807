"""Which arm answers whom: shares, who moves when weights do, and what a rollout or a user's own adapter changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from graftwork.errors import InvalidRequest, NotFound, RouteRefused, UnknownModel
from graftwork.traffic.choice import choose
from graftwork.traffic.decision import Asked, Decision
from graftwork.traffic.live_arms import LiveArm, point_in
from graftwork.traffic.routes.arms import pick
from graftwork.traffic.routes.circumstances import UNKNOWN, Circumstances
from graftwork.traffic.routes.table import RouteTable
from graftwork.traffic.split import Slice
from support.versions import BASE, snapshot
from traffic.routes.test_route import route, rule

USERS = tuple(replace(UNKNOWN, user=f"user-{number}") for number in range(10_000))


def split(canary: float, stable: float, *, name: str = "support", first: Sequence[dict[str, Any]] = ()) -> RouteTable:
    targets = [
        {"reference": "old:1.1.0", "weight": canary, "arm": "canary"},
        {"reference": "old", "weight": stable},
    ]
    made = route(*first, {"name": "split", "targets": targets}, name=name)
    return RouteTable({("local", name): made})


def chosen(table: RouteTable, seen: Circumstances = UNKNOWN, **asked: Any) -> Decision:
    given = Asked(**{"model": "support", "seen": seen, **asked})
    return choose(given, tenant="local", base=BASE, versions=snapshot(), routes=table)


@cache
def points(name: str) -> tuple[float, ...]:
    return tuple(point_in("local", name, seen.split_key) for seen in USERS)


def on_canary(table: RouteTable, name: str = "support") -> set[int]:
    """Which of all users; some of them are asked for at the door, too."""
    arms = table.by_name["local", name].ruling(UNKNOWN).arms
    found = {at for at, point in enumerate(points(name)) if pick(arms, point).name == "canary"}
    for at in range(10):
        assert (chosen(table, USERS[at], model=name).arm == "canary") == (at in found)
    return found


@hypothesis_settings(max_examples=4)
@given(st.integers(1, 99), st.integers(1, 99))
def test_growing_moves_only_to_the_arm_that_grows_and_shares_are_as_weighted(one: int, other: int) -> None:
    small, large = sorted((one, other))
    few, many = on_canary(split(small, 100 - small)), on_canary(split(large, 100 - large))
    assert few <= many, "nobody leaves the arm that grows, and shrinking it moves the same ones back"
    for found, share in ((few, small), (many, large)):
        assert abs(len(found) / len(USERS) - share / 100) < 0.02


def test_who_is_where_stays_over_restarts_and_whatever_stands_before_the_rule() -> None:
    before = on_canary(split(1, 3))
    assert before == on_canary(split(10, 30, first=[rule("never", {"task": "x"}), {"name": "on", "next": True}]))
    assert before != on_canary(split(1, 3, name="other"), "other"), "another route splits the same users otherwise"
    assert abs(len(before & on_canary(split(1, 3, name="other"), "other")) / len(USERS) - 1 / 16) < 0.01


#: Three arms with names, three that are told apart by what they lead to, and two of these that lead to the same.
NAMED = [("old:1.1.0", 1, "canary"), ("old:1.0.0", 6, "stable"), ("new:1.0.0", 3, "ahead")]
NAMELESS: list[tuple[str, int, str | None]] = [(reference, weight, None) for reference, weight, _ in NAMED]
TWICE: list[tuple[str, int, str | None]] = [("old", 1, None), ("old", 4, None), ("new:1.0.0", 5, None)]


@pytest.mark.parametrize("arms", [NAMED, NAMELESS, TWICE])
def test_nobody_moves_when_targets_are_written_in_another_order(arms: list[tuple[str, int, str | None]]) -> None:
    def where(order: Sequence[tuple[str, int, str | None]]) -> list[str]:
        told = [{"reference": one, "weight": weight, "arm": arm} for one, weight, arm in order]
        made = RouteTable({("local", "support"): route({"name": "split", "targets": told})})
        found = made.by_name["local", "support"].ruling(UNKNOWN).arms
        return [pick(found, point).reference for point in points("support")]

    before = where(arms)
    for reference in {one for one, _, _ in arms}:
        share = sum(weight for one, weight, _ in arms if one == reference) / 10
        assert abs(before.count(reference) / len(USERS) - share) < 0.02
    assert all(where(order) == before for order in permutations(arms))


def test_the_user_is_split_by_else_the_session_else_the_key_else_the_request() -> None:
    table = split(1, 1)
    ann = Circumstances(user="ann", session="s", key="k", request="r")
    found = [
        chosen(table, seen).point
        for seen in (ann, replace(ann, user=None), replace(ann, user=None, session=None), Circumstances(request="r"))
    ]
    assert len(set(found)) == 4
    assert chosen(table, replace(ann, session="other", request="other")).point == found[0]
    assert chosen(table, Circumstances(session="ann")).point != found[0], "no session is the user of its name"


def test_a_decision_says_what_led_to_it() -> None:
    table = RouteTable(
        {("local", "support"): route(rule("office", {"task": "a"}), rule("rest", reference="old:1.1.0"))}
    )
    found = chosen(table)
    assert (found.model, found.route, found.revision, found.rule) == ("old:1.1.0", "support", 1, "rest")
    assert (found.arm, found.reference, found.reason) == ("stable", "old:1.1.0", "model:rest:stable")
    assert found.digest == "sha256:" + "4" * 64
    assert chosen(table, model=None, default="support").reason == "default:rest:stable"
    assert chosen(table, adapter_id="new").reason == "adapter_id:newest"
    assert chosen(table, model=BASE).reason == "model:base"


def test_no_other_arm_answers_for_one_that_leads_nowhere() -> None:
    table = RouteTable({("local", "support"): route(rule("lost", reference="gone:1.0.0"), rule("rest"))})
    with pytest.raises(NotFound, match=r"support leads to gone:1\.0\.0 \(arm stable\), which names no version"):
        chosen(table)
    refusing = route({"name": "no", "refuse": {"status": 451, "message": "closed"}})
    with pytest.raises(RouteRefused, match="closed") as refused:
        chosen(RouteTable({("local", "support"): refusing}))
    assert refused.value.status == 451


@pytest.mark.parametrize("user", [None, "", "New", "a b", "old@production", "../old", "n" * 129, "é"])
def test_a_user_who_is_no_name_has_no_adapter(user: str | None) -> None:
    table = RouteTable({("local", "support"): route(rule("own", reference="{user}@production"))})
    assert chosen(table, replace(UNKNOWN, user="old")).model == "old:1.0.0"
    with pytest.raises(NotFound):
        chosen(table, replace(UNKNOWN, user=user))


class Rollout:
    """One that runs on the routes named, from one version of `old` to `old:1.1.0`, at a half."""

    def __init__(self, *routes: str, stable: str = "3") -> None:
        self._routes, self._digest = routes, "sha256:" + stable * 64

    def arms(self, tenant: str, route: str) -> Sequence[LiveArm] | None:
        if route not in self._routes:
            return None
        low, high = (Slice("candidate", 0.0, 0.5),), (Slice("stable", 0.5, 1.0),)
        candidate = LiveArm("candidate", "old:1.1.0", 0.5, low, "sha256:" + "4" * 64, "it/1")
        return [candidate, LiveArm("stable", "old", 0.5, high, self._digest, "it/1")]

    def mirror(self, tenant: str, route: str) -> None:
        return None


def live(table: RouteTable, rollout: Rollout, model: str) -> set[tuple[str, str]]:
    def one(seen: Circumstances) -> Decision:
        asked = Asked(model, seen=seen)
        return choose(asked, tenant="local", base=BASE, versions=snapshot(), routes=table, rollouts=rollout)

    return {(found.arm, found.model) for found in map(one, USERS[:64])}


def test_a_rollout_takes_the_place_of_the_target_that_it_started_from() -> None:
    both = {("candidate", "old:1.1.0"), ("stable", "old:1.0.0")}
    assert live(RouteTable(), Rollout("old"), "old") == both, "an implicit route"
    sole = RouteTable({("local", "support"): route(rule("it", reference="old"))})
    assert live(sole, Rollout("support"), "support") == both
    assert live(sole, Rollout("support", stable="4"), "support") == {("stable", "old:1.0.0")}
    assert live(sole, Rollout("old"), "support") == {("stable", "old:1.0.0")}, "a target is no route"
    assert live(sole, Rollout("old"), "old:1.0.0") == {("explicit", "old:1.0.0")}


def test_at_a_route_s_own_door_other_names_are_no_names() -> None:
    table = split(1, 1)
    assert chosen(table, model=None, route="support").reason.startswith("route:split:")
    assert chosen(table, model="old:1.0.0", route="support").route == "support"
    for wrong in ({"model": "new"}, {"model": None, "header": "new"}, {"adapters": (("old", 1.0),)}):
        with pytest.raises(InvalidRequest):
            chosen(table, route="support", **wrong)
    with pytest.raises(UnknownModel):
        chosen(table, model="old", route="nope")
    assert chosen(table, model=None, route=BASE).version is None


def test_targets_that_lead_to_the_same_have_their_shares_too() -> None:
    told = [{"reference": "old", "weight": weight} for weight in (1, 2, 3, 4)]
    arms = route({"name": "split", "targets": told}).arms
    found = [pick(arms, point).name for point in points("support")]
    for arm, share in zip(arms, (0.1, 0.2, 0.3, 0.4), strict=True):
        assert arm.share == share and abs(found.count(arm.name) / len(USERS) - share) < 0.02


@pytest.mark.parametrize("added", [1, 9])
def test_one_more_that_leads_to_the_same_only_takes(added: int) -> None:
    def where(*weights: int) -> list[str]:
        told = [{"reference": "old", "weight": weight} for weight in weights]
        arms = route({"name": "split", "targets": [*told, {"reference": "new:1.0.0", "weight": 5}]}).arms
        return [pick(arms, point).reference for point in points("support")]

    before = where(5)
    for after in (where(5, added), where(added, 5)):
        assert {(was, now) for was, now in zip(before, after, strict=True) if was != now} == {("new:1.0.0", "old")}


def test_an_arm_that_is_called_as_another_s_target_is_another() -> None:
    told = [{"reference": "old:1.1.0", "arm": "old", "weight": 1}, {"reference": "old", "weight": 1}]
    arms = route({"name": "split", "targets": told}).arms
    found = [pick(arms, point).name for point in points("support")]
    assert abs(found.count("old") / len(USERS) - 0.5) < 0.02


def test_a_version_in_another_s_place_has_its_users_where_the_arm_has_a_name() -> None:
    def where(reference: str) -> list[str]:
        told = [{"reference": reference, "arm": "canary", "weight": 1}, {"reference": "old", "weight": 3}]
        arms = route({"name": "split", "targets": told}).arms
        return [pick(arms, point).name for point in points("support")]

    assert where("old:1.1.0") == where("new:1.0.0")

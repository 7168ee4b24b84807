"""What a session keeps to: the version that it began with, while that may answer, whatever the weights do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from graftwork.registry.snapshot import Snapshot
from graftwork.registry.view import AdapterView
from graftwork.traffic.choice import choose
from graftwork.traffic.decision import Asked, Decision
from graftwork.traffic.live_arms import LiveArm
from graftwork.traffic.resize import resize, share_of
from graftwork.traffic.routes.circumstances import Circumstances
from graftwork.traffic.routes.table import RouteTable
from graftwork.traffic.sessions.pin import Ending, Pin, Place, session_key
from graftwork.traffic.split import Slice
from support.versions import BASE, snapshot, version
from traffic.routes.test_route import route, rule

STABLE, CANARY, OTHER = (f"sha256:{number}" + f"{number}" * 63 for number in (3, 4, 5))
ALL_STABLE = (Slice("stable", 0.0, 1.0),)


@dataclass
class Canary:
    """A rollout of `old` from its production version to the next one, and perhaps a third."""

    slices: tuple[Slice, ...] = ALL_STABLE
    revision: int = 1
    ended: Ending | None = None

    def set(self, **shares: float) -> None:
        self.slices = resize(self.slices, shares, stable="stable")

    def arms(self, tenant: str, route: str) -> Sequence[LiveArm] | None:
        if route != "old" or self.ended is not None:
            return None

        def arm(name: str, reference: str, digest: str) -> LiveArm:
            own = tuple(one for one in self.slices if one.arm == name)
            return LiveArm(name, reference, share_of(own, name), own, digest, f"old/{self.revision}")

        return [arm("a", "old:1.1.0", CANARY), arm("b", "old:1.2.0", OTHER), arm("stable", "old@production", STABLE)]

    def mirror(self, tenant: str, route: str) -> None:
        return None

    def ending(self, tenant: str, route: str, rollout: str) -> Ending | None:
        return self.ended if rollout == f"old/{self.revision}" else None


def three(production: int = 3, **states: Mapping[str, Any]) -> Snapshot:
    """Versions 3, 4 and 5 of `old`, each in the state that is told of it."""
    view = AdapterView.of(
        [version("old", f"1.{number - 3}.0", number) for number in (3, 4, 5)], {"production": production}
    )
    assert view is not None
    known = [(one, states.get(f"v{one.sequence}", {})) for one in view.versions]
    told = tuple(replace(one, **state) for one, state in known if not state.get("gone"))
    return Snapshot(1, {("local", "old"): replace(view, versions=told)})


@dataclass
class Talk:
    """A server, as sessions see it: they are answered, and it keeps what they had."""

    rollout: Canary = field(default_factory=Canary)
    versions: Snapshot = field(default_factory=three)
    routes: RouteTable = field(default_factory=RouteTable)
    pins: dict[str, dict[Place, Pin]] = field(default_factory=dict)

    def turn(self, session: str = "s", model: str = "old", **seen: Any) -> Decision:
        asked = Asked(model, seen=Circumstances(session=session, **seen), pins=self.pins.get(session, {}))
        found = choose(
            asked,
            tenant="local",
            base=BASE,
            versions=self.versions,
            routes=self.routes,
            rollouts=self.rollout,
            endings=self.rollout,
        )
        assert found.turn is not None
        self.pins.setdefault(session, {})[found.turn.place] = found.turn.pin
        return found

    def all(self, count: int, first: int = 0) -> list[str | None]:
        return [self.turn(f"s{number}").digest for number in range(first, first + count)]


def test_ten_thousand_sessions_keep_their_version_while_weights_go_up_and_down_and_the_new_ones_are_split() -> None:
    talk, many = Talk(), 10_000
    talk.rollout.set(a=0.05)
    first = talk.all(many)
    assert abs(first.count(CANARY) / many - 0.05) < 0.01
    for shares in ({"a": 0.25}, {"a": 0.1, "b": 0.3}, {"b": 0.3, "a": 0.02}):
        talk.rollout.set(**shares)
        assert talk.all(1000) == first[:1000], "nobody moves who has begun"
    talk.pins = {session: dict(pins) for session, pins in talk.pins.items()}  # as another server has read them
    assert talk.all(many) == first
    new = talk.all(many, first=many)
    assert abs(new.count(CANARY) / many - 0.02) < 0.01
    assert abs(new.count(OTHER) / many - 0.3) < 0.02
    talk.rollout.set(b=0.3)
    moved = talk.all(many)
    assert all(before == after for before, after in zip(first, moved, strict=True) if before != CANARY)
    assert CANARY not in moved, "an arm without keys keeps nobody"


@hypothesis_settings(max_examples=20)
@given(st.lists(st.tuples(st.floats(0, 0.5), st.floats(0, 0.5), st.booleans()), min_size=1, max_size=6))
def test_a_session_moves_only_when_its_arm_has_no_keys_left(steps: list[tuple[float, float, bool]]) -> None:
    talk = Talk()
    before = talk.all(60)
    for a, b, turned in steps:
        shares = [("b", b), ("a", a)] if turned else [("a", a), ("b", b)]
        talk.rollout.set(**{name: share for name, share in shares if share >= 0.001})
        arms = talk.rollout.arms("local", "old") or ()
        live = {arm.digest for arm in arms if arm.slices}
        after = [talk.turn(f"s{number}") for number in range(60)]
        for was, now in zip(before, after, strict=True):
            assert now.digest in live
            if was in live:
                assert (now.digest, now.reason) == (was, f"model:rollout:{now.arm}:session")
            else:
                assert now.reason == f"model:rollout:{now.arm}:released:weight"
        before = [one.digest for one in after]


def in_canary(talk: Talk) -> str:
    """A session that the canary answers."""
    talk.rollout.set(a=0.5)
    return next(name for name in map(str, range(100)) if talk.turn(name).digest == CANARY)


@pytest.mark.parametrize("ended", ["aborted", "superseded", "completed"])
def test_who_ended_the_rollout_releases_the_canary_s_sessions_and_no_others(ended: Ending) -> None:
    talk = Talk()
    name = in_canary(talk)
    other = next(one for one in map(str, range(100)) if talk.turn(one).digest == STABLE)
    talk.rollout.ended = ended
    found = talk.turn(name)
    assert (found.digest, found.reason) == (STABLE, f"model:production:released:{ended}")
    assert found.turn is not None
    assert found.turn.to_json() == {"state": "released", "reason": ended, "before": CANARY}
    assert found.turn.pin.number == 2
    assert talk.turn(name).reason == "model:production:session"
    assert talk.turn(other).reason == "model:production:session"


def test_a_promotion_keeps_the_canary_s_sessions_and_releases_the_others() -> None:
    talk = Talk()
    name = in_canary(talk)
    other = next(one for one in map(str, range(100)) if talk.turn(one).digest == STABLE)
    talk.rollout.ended, talk.versions = "promoted", three(production=4)
    assert talk.turn(name).reason == "model:production:session"
    assert talk.turn(other).reason == "model:production:released:promoted"
    talk.versions = three(production=3)
    assert talk.turn(name).reason == "model:production:released:moved", "a rollback"


@pytest.mark.parametrize(
    ("state", "why"),
    [
        ({"stage": "archived"}, "archived"),
        ({"forbidden": ("not approved",)}, "forbidden"),
        ({"gone": True}, "deleted"),
    ],
)
def test_a_version_that_may_not_answer_keeps_nobody(state: dict[str, Any], why: str) -> None:
    talk = Talk()
    name = in_canary(talk)
    talk.versions = three(v4=state)
    found = talk.turn(name)
    assert (found.digest, found.reason) == (STABLE, f"model:rollout:stable:released:{why}")


@pytest.mark.parametrize("first", [1, None], ids=["since another rollout", "since before any"])
def test_who_was_kept_at_a_small_weight_and_has_none_left_is_told_so(first: int | None) -> None:
    talk = Talk()
    if first is None:
        talk.rollout.ended = "aborted"
    else:
        talk.rollout.revision = first
        talk.rollout.set(a=0.01)
    name = next(one for one in map(str, range(100)) if talk.turn(one).digest == STABLE)
    talk.rollout = Canary(revision=2)
    talk.rollout.set(a=0.05)
    assert talk.turn(name).reason == "model:rollout:stable:session"
    talk.rollout.set(a=1.0)
    found = talk.turn(name)
    assert (found.digest, found.reason) == (CANARY, "model:rollout:a:released:weight")


def test_the_pointer_has_the_last_word_also_for_sessions() -> None:
    talk = Talk()
    name = in_canary(talk)
    talk.versions = three(production=5)
    assert talk.turn(name).reason == "model:production:released:moved"


def both(weight: int, *, names: tuple[str, str] = ("one", "two")) -> RouteTable:
    targets = [
        {"reference": "old:1.1.0", "weight": weight, "arm": "a"},
        {"reference": "old:1.0.0", "weight": 100 - weight},
    ]
    rules = [
        {"name": names[0], "matches": [{"task": "code"}], "targets": targets},
        {"name": names[1], "targets": targets},
    ]
    return RouteTable({("local", "support"): route(*rules)})


def test_targets_of_a_route_keep_their_sessions_whatever_their_weights_and_order_and_names_of_rules() -> None:
    talk = Talk(routes=both(50))
    before = [talk.turn(f"s{number}", "support").digest for number in range(100)]
    for table in (both(99), both(1), both(40, names=("first", "second"))):
        talk.routes = table
        assert [talk.turn(f"s{number}", "support").digest for number in range(100)] == before
    talk.routes = RouteTable({("local", "support"): route(rule("two", reference="old:1.1.0"))})
    found = [talk.turn(f"s{number}", "support") for number in range(100)]
    assert {one.digest for one in found} == {CANARY}
    assert {one.reason for one in found} == {"model:two:stable:session", "model:two:stable:released:moved"}


def test_each_rule_of_a_route_has_its_own_pin_and_each_route_too() -> None:
    first, rest = rule("code", {"task": "code"}, reference="old:1.1.0"), rule("rest", reference="old:1.0.0")
    talk = Talk(routes=RouteTable({("local", "support"): route(first, rest)}))
    assert talk.turn(model="support").digest == STABLE
    assert talk.turn(model="support", task="code").reason == "model:code:stable"
    assert talk.turn(model="support").reason == "model:rest:stable:session", "the other rule took nothing from it"
    assert talk.turn().turn is not None
    assert set(talk.pins["s"]) == {("support", "code"), ("support", "rest"), ("old", "")}


def test_a_base_is_kept_to_as_any_version() -> None:
    targets = [{"reference": BASE, "weight": 1, "arm": "plain"}, {"reference": "old", "weight": 1}]
    talk = Talk(routes=RouteTable({("local", "support"): route({"name": "it", "targets": targets})}))
    name = next(one for one in map(str, range(100)) if talk.turn(one, "support").digest is None)
    assert talk.turn(name, "support").reason == "model:it:plain:session"
    talk.routes = RouteTable({("local", "support"): route({"name": "it", "targets": targets[1:]})})
    found = talk.turn(name, "support").turn
    assert found is not None
    assert found.to_json() == {"state": "released", "reason": "moved", "before": None}


def test_what_names_a_version_asks_no_session() -> None:
    def asked(**told: Any) -> Decision:
        found = Asked(seen=Circumstances(session="s"), pins={("old", ""): Pin("old", CANARY, "a")}, **told)
        return choose(found, tenant="local", base=BASE, versions=snapshot())

    for told in ({"adapter_id": "old"}, {"model": "old:1.0.0"}, {"header": "old"}, {"model": BASE}, {}):
        assert asked(**told).turn is None


def test_a_session_is_its_owner_s() -> None:
    assert session_key("user:ann", "chat") != session_key("user:bob", "chat")
    assert session_key("a", "bc") != session_key("ab", "c")
    assert len(session_key("user:ann", "\ud800\0")) == 64

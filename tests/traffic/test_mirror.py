"""Which requests are copied: a share of those that the stable version answers, by a hash of their id."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graftwork.registry.snapshot import Snapshot
from graftwork.traffic.choice import choose
from graftwork.traffic.decision import Asked, Decision
from graftwork.traffic.mirror import Mirror, mirrored_at, shadows_of
from graftwork.traffic.rollouts.live import LiveRollouts
from graftwork.traffic.routes.circumstances import Circumstances
from graftwork.traffic.routes.table import RouteTable
from support.rollouts import Bench, canary, hold, weight

REQUESTS = 10_000


def mirror(share: float) -> Mirror:
    return Mirror("candidate", "support:2.0.0", share, "support/1", "sha256:stable")


def copied(share: float, requests: list[str], route: str = "support") -> set[str]:
    """Those that have a copy."""

    def resolve(_: object) -> object:
        class Version:
            forbidden = ()
            stage = "staging"

        return Version()

    return {
        one
        for one in requests
        if shadows_of(mirror(share), "local", route, one, "sha256:stable", resolve)  # type: ignore[arg-type]
    }


@pytest.mark.parametrize("share", [0.0, 0.01, 0.2, 0.5, 1.0])
def test_the_share_of_requests_that_is_copied_is_the_plans(share: float) -> None:
    requests = [uuid.uuid5(uuid.NAMESPACE_URL, str(number)).hex for number in range(REQUESTS)]
    deviation = (share * (1 - share) / REQUESTS) ** 0.5
    assert abs(len(copied(share, requests)) / REQUESTS - share) <= 4 * deviation


@given(st.lists(st.uuids(), max_size=50, unique=True), st.floats(0, 1), st.floats(0, 1))
def test_a_larger_share_only_adds_copies_and_routes_are_apart(ids: list[uuid.UUID], one: float, two: float) -> None:
    requests = [found.hex for found in ids]
    low, high = sorted((one, two))
    assert copied(low, requests) <= copied(high, requests)
    assert copied(one, requests) == {request for request in requests if mirrored_at("local", "support", request) < one}


def decide(snapshot: Snapshot, model: str, request: str, user: str | None = None, **told: str) -> Decision:
    return choose(
        Asked(model, seen=Circumstances(user=user, request=request), **told),  # type: ignore[arg-type]
        tenant="local",
        base="tiny",
        versions=snapshot,
        routes=snapshot.part(RouteTable),
        rollouts=snapshot.part(LiveRollouts),
    )


def test_only_what_the_stable_arm_answers_by_the_route_is_copied(bench: Bench) -> None:
    bench.start(canary({"setMirror": 100}, weight(50), hold()))
    bench.look()
    snapshot, stable = bench.snapshot(), set[bool]()
    for number in range(100):
        found = decide(snapshot, "support", f"r{number}", f"user-{number}")
        stable.add(found.arm == "stable")
        assert [one.version.label for one in found.shadows] == (["support:2.0.0"] if found.arm == "stable" else [])
        assert all(one.rollout == found.rollout and one.point < 1 for one in found.shadows)
    assert stable == {True, False}
    for model in ("support:1.0.0", "support:2.0.0", "tiny"):
        assert decide(snapshot, model, "r1").shadows == ()
    assert decide(snapshot, "", "r1", adapter_id="support").shadows == ()


@pytest.mark.parametrize("kept_out", ["archived", "forbidden"])
def test_nothing_is_copied_to_what_may_answer_nobody(bench: Bench, kept_out: str) -> None:
    bench.start({"shadow": {"mirror": 100, "duration": "1h"}})
    bench.look()
    assert decide(bench.snapshot(), "support", "r1").shadows
    if kept_out == "archived":
        bench.desk.lifecycle.set_stage("local", "support:2.0.0", "archived", actor="me")
    else:
        bench.desk.demand("serving")
    assert decide(bench.snapshot(), "support", "r1").shadows == ()


def test_what_is_copied_ends_with_the_rollout(bench: Bench) -> None:
    bench.start({"shadow": {"mirror": 100, "duration": "1h"}})
    assert bench.look().state.mirror == ("candidate", 1.0)
    assert decide(bench.snapshot(), "support", "r1").shadows
    assert bench.look(3601).state.status == "completed"
    after = decide(bench.snapshot(), "support", "r1")
    assert after.shadows == () and after.version is not None and after.version.label == "support:1.0.0"

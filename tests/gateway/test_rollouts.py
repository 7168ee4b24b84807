"""Rollouts over HTTP, and what they do to the requests that are answered and to what is in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from graftwork.engine.request import AdapterHandle
from graftwork.errors import Conflict, Forbidden, InvalidRequest, NotFound, PreconditionFailed, Refused, Unavailable
from graftwork.gateway import kept_warm, steering
from graftwork.gateway import rollouts as doors
from graftwork.gateway.services import Services
from graftwork.traffic.rollouts import rows
from support.rollouts import canary, document, hold, weight
from support.served import Served

AT = "/api/v1/rollouts"
HALF = canary(weight(50), hold())


@pytest.fixture
def by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rollouts go on by `look` alone: beside the server's own loop, no test would know what it finds."""
    monkeypatch.setattr(steering, "LOOK_S", 3600.0)


@pytest.fixture
def support(by_hand: None, served: Served) -> Served:
    """Three versions of one adapter, the first in production."""
    for number in (1, 2, 3):
        served.push(f"support:{number}.0.0", seed=number)
    served.client.promote("support:1.0.0")
    return served


def services(served: Served) -> Services:
    found: Services = served.app.state.services
    return found


def look(served: Served, times: int = 2) -> dict[str, Any]:
    """What a server does by itself, done now; the first look loads what the next one finds loaded."""
    for _ in range(times):
        asyncio.run(services(served).steering.look())
    return served.client.rollouts.show("support")


def start(served: Served, strategy: dict[str, Any], *candidates: Any) -> dict[str, Any]:
    return served.client.rollouts.start(document("support", strategy, *candidates))


def models(served: Served, requests: int = 40) -> set[tuple[str, str]]:
    """Which versions answer under which arm; each of these requests is somebody else's."""
    answers = [served.chat(model="support") for _ in range(requests)]
    assert {answer.status_code for answer in answers} == {200}
    for answer in answers:
        said = answer.json()
        assert said["choices"][0]["message"]["content"].startswith(f"{said['model']} says:")
        assert said["graftwork"]["arm"] == answer.headers["x-graftwork-arm"]
    return {(answer.json()["model"], answer.headers["x-graftwork-arm"]) for answer in answers}


def test_a_rollout_is_started_told_what_to_do_and_ends(support: Served) -> None:
    body = document("support", canary(weight(50), hold(), weight(100)))
    begun = support.http.post(AT, json=body, headers={"idempotency-key": "one"})
    assert (begun.status_code, begun.headers["location"], begun.json()["status"]) == (201, f"{AT}/support", "warming")
    again = support.http.post(AT, json=body, headers={"idempotency-key": "one"})
    assert (again.json()["revision"], begun.json()["revision"]) == (1, 1)
    assert models(support, 5) == {("support:1.0.0", "stable")}
    now = look(support)
    assert (now["status"], now["held"], now["step"], now["steps"]) == ("paused", "step", 1, 3)
    assert [(one["arm"], one["version"], one["weight"]) for one in now["arms"]] == [
        ("candidate", "support:2.0.0", 50.0),
        ("stable", "support:1.0.0", 50.0),
    ]
    assert models(support) == {("support:1.0.0", "stable"), ("support:2.0.0", "candidate")}
    paused = support.client.rollouts.pause("support", reason="lunch")
    assert (paused["held"], paused["reason"]) == ("asked", "lunch")
    support.client.rollouts.resume("support")
    assert look(support)["held"] == "step", "somebody's pause took nothing of the step's"
    support.client.rollouts.resume("support")
    ended = look(support)
    assert (ended["status"], ended["ended_at"] is not None) == ("promoted", True)
    assert [one["weight"] for one in ended["arms"]] == [100.0, 0.0], "what it ended with"
    assert models(support, 5) == {("support:2.0.0", "production")}
    assert support.client.show("support@previous")["semver"] == "1.0.0"
    kinds = [one["kind"] for one in support.client.rollouts.steps("support")]
    assert kinds[0] == "promoted" and kinds[-1] == "started"
    listed = support.client.events.list(subject="rollouts/support")
    assert [event["kind"] for event in listed] == [f"rollout.{kind}" for kind in reversed(kinds)]


def test_an_abort_counts_for_the_next_request_and_a_retry_begins_anew(support: Served) -> None:
    start(support, canary(weight(100), hold()))
    look(support)
    assert models(support, 5) == {("support:2.0.0", "candidate")}
    assert support.client.rollouts.abort("support", reason="rude")["status"] == "aborted"
    assert [one["weight"] for one in support.client.rollouts.show("support")["arms"]] == [0.0, 100.0]
    assert models(support, 5) == {("support:1.0.0", "production")}
    retried = support.http.post(f"{AT}/support/retry")
    assert (retried.status_code, retried.json()["revision"], retried.json()["status"]) == (201, 2, "warming")
    late = support.http.post(f"{AT}/support/abort", json={"revision": 1})
    assert late.status_code == 412
    with pytest.raises(PreconditionFailed):
        support.client._wire.json("POST", f"{AT}/support/pause", json={"revision": 1})


def test_a_stream_in_flight_ends_on_the_version_that_it_began_with(support: Served) -> None:
    start(support, canary(weight(100), hold()))
    look(support)
    support.engine.pause_after = 1
    with support.client.chat("one two three", model="support", stream=True) as stream:
        text = ""
        for piece in stream:
            text += piece
            support.client.rollouts.abort("support")
            support.engine.gate.set()
    assert text == "support:2.0.0 says: one two three"
    support.engine.pause_after = None
    assert support.chat(model="support").json()["model"] == "support:1.0.0"


def test_watching_tells_each_change_until_the_end(support: Served) -> None:
    start(support, canary(weight(50), hold()))
    seen: list[dict[str, Any]] = []
    watching: Iterator[dict[str, Any]] = support.client.rollouts.watch("support")
    for told in watching:
        seen.append(told)
        if told["status"] == "warming":
            services(support).rollouts.promote("local", "support", actor="ann", reason="sure")
    assert [one["status"] for one in seen] == ["warming", "promoted"]


def test_watching_tells_what_gates_come_to_and_figures_now_and_then(
    support: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doors, "STANDING_S", 0.0)
    start(support, canary(weight(50), hold()))
    rollouts = services(support).rollouts
    one, told = rollouts.get("local", "support"), iter([("inconclusive", 3), ("inconclusive", 4), ("pass", 50)])

    def stand() -> None:
        """What a controller writes, which is no change."""
        result, n = next(told)
        metric = {"name": "rating", "result": result, "reason": f"of {n}", "figures": {"n": n}, "looks": {}}
        standing = {"arm": "candidate", "name": "liked", "revision": 1, "since": one.created_at, "metrics": [metric]}
        standing |= {"looked_at": f"{n}", "result": result, "reason": f"rating: of {n}"}
        with rollouts._database.transaction() as tx:
            rows.write_seen(tx, one, [standing], None)

    seen = []
    for event in support.client.rollouts.watch("support"):
        seen.append([standing["reason"] for standing in event["analyses"]])
        if len(seen) == 1:
            stand()
        elif len(seen) == 2:  # the figures alone, and then another verdict
            stand()
            assert len(seen) == 2
            stand()
        else:
            break
    assert seen == [[], ["rating: of 3"], ["rating: of 50"]]
    monkeypatch.setattr(doors, "FIGURES_S", 0.0)
    told = iter([("pass", 51)])
    for number, event in enumerate(support.client.rollouts.watch("support")):
        if number:
            assert event["analyses"][0]["reason"] == "rating: of 51"
            break
        stand()


def test_candidates_are_in_memory_before_their_first_weight_and_both_arms_stay_there(support: Served) -> None:
    start(support, HALF)
    assert look(support, 1)["status"] == "paused"
    digests = {one["digest"] for one in support.client.rollouts.show("support")["arms"]}
    assert support.engine.pinned == digests
    support.client.rollouts.abort("support")
    look(support)
    assert support.engine.pinned == set()


def test_a_candidate_that_cannot_be_loaded_is_aborted_and_nobody_was_answered_by_it(support: Served) -> None:
    support.engine.failures["support:2.0.0"] = Refused("It cannot be served.")
    start(support, HALF)
    assert (look(support)["status"], models(support, 5)) == ("aborted", {("support:1.0.0", "production")})


def test_a_candidate_that_finds_no_room_says_so_while_it_waits(
    support: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    support.engine.failures["support:2.0.0"] = Unavailable("Adapter memory is full of adapters in use.")
    start(support, HALF)
    told = look(support, 1)
    assert told["status"] == "warming"
    assert told["waits_for"] == "support:2.0.0 cannot be loaded yet: Adapter memory is full of adapters in use."
    support.engine.failures.clear()
    monkeypatch.setattr(kept_warm, "AGAIN_S", 0.0)
    told = look(support)
    assert (told["held"], told["waits_for"]) == ("step", None)


def test_the_previous_version_is_kept_in_memory_while_the_one_in_production_is_there(support: Served) -> None:
    support.client.load("support:1.0.0")
    support.client.promote("support:2.0.0")
    first = support.client.show("support:1.0.0")["digest"]
    look_only(support)
    assert support.engine.pinned == set(), "nobody uses the version in production here"
    support.client.load("support:2.0.0")
    look_only(support)
    assert support.engine.pinned == {first}
    support.client.promote("support:3.0.0")
    support.client.load("support:3.0.0")
    look_only(support)
    assert support.engine.pinned == {support.client.show("support:2.0.0")["digest"]}


def test_what_finds_no_room_is_not_asked_for_all_the_time(support: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    support.engine.failures["support:2.0.0"] = Conflict("Pinned adapters hold all of it.")
    asked: list[str] = []
    load = support.engine.load

    async def counted(handle: AdapterHandle, **how: Any) -> bool:
        asked.append(handle.label)
        return await load(handle, **how)

    monkeypatch.setattr(support.engine, "load", counted)
    start(support, HALF)
    look(support, 5)
    assert asked == ["support:2.0.0", "support:1.0.0"]
    monkeypatch.setattr("graftwork.gateway.kept_warm.AGAIN_S", 0.0)
    support.engine.failures.clear()
    assert look(support)["held"] == "step"


def look_only(served: Served) -> None:
    asyncio.run(services(served).steering.look())


def test_what_somebody_pinned_by_name_stays_pinned_when_the_rollout_ends(support: Served) -> None:
    support.client.pin("support:1.0.0")
    start(support, HALF)
    look(support)
    support.client.pin("support:2.0.0")
    support.client.rollouts.abort("support")
    look(support)
    assert len(support.engine.pinned) == 2
    support.client.unpin("support:2.0.0")
    look(support)
    assert len(support.engine.pinned) == 1


def test_what_cannot_be_is_refused_with_its_status(support: Served) -> None:
    for wrong, status, said in (
        (document("support", canary(weight(101))), 400, "setWeight"),
        ({**document("support", HALF), "kind": "Route"}, 400, "kind"),
        (document("support", {"canary": {"steps": [weight(1)], "stepz": 1}}), 400, "stepz"),
        (document("support", {"shadow": {"mirror": 101}}), 400, "mirror"),
        (document("support", canary({"analysis": {"name": "errors"}})), 400, "errors"),
        (document("support", HALF, "support:1.0.0"), 409, "already"),
        (document("nowhere", HALF), 404, "nowhere"),
    ):
        refused = support.http.post(AT, json=wrong)
        assert (refused.status_code, said in refused.text) == (status, True), refused.text
    assert support.http.get(f"{AT}/support").status_code == 404
    assert support.http.get(AT, params={"status": "odd"}).status_code == 400
    assert support.http.get("/api/v1/tenants/acme/rollouts/support").status_code == 404
    for verb in ("pause", "resume", "promote", "abort", "retry"):
        assert support.http.post(f"{AT}/support/{verb}").status_code == 404
    with pytest.raises(NotFound):
        next(support.client.rollouts.watch("support"))
    start(support, {"split": {}}, ("b", "support:2.0.0"), ("c", "support:3.0.0"))
    with pytest.raises(InvalidRequest, match="b, c"):
        support.client.rollouts.promote("support")
    with pytest.raises(Conflict, match="not paused"):
        support.client.rollouts.resume("support")


def test_what_the_policy_forbids_is_not_promoted_by_any_door(support: Served) -> None:
    policy = {"apiVersion": "adapters.graftwork.dev/v1alpha1", "kind": "Policy"}
    support.client.lifecycle.set_policy({**policy, "spec": {"require": {"production": ["approval"]}}})
    start(support, canary(weight(50)))
    with pytest.raises(Forbidden, match=r"Next: `graftwork approve support:2\.0\.0`\."):
        support.client.rollouts.promote("support")
    assert look(support)["held"] == "forbidden"
    support.client.lifecycle.approve("support:2.0.0")
    support.client.rollouts.resume("support")
    assert look(support)["status"] == "promoted"


def test_metrics_tell_status_and_weights_of_what_is_live(support: Served) -> None:
    def told() -> list[str]:
        page = support.http.get("/metrics").text
        return sorted(line for line in page.splitlines() if line.startswith("graftwork_rollout_"))

    assert told() == []
    start(support, canary(weight(25), hold()))
    look(support)
    assert told() == [
        'graftwork_rollout_status{route="support",status="paused",tenant="local"} 1.0',
        'graftwork_rollout_weight{arm="candidate",route="support",tenant="local"} 0.25',
        'graftwork_rollout_weight{arm="stable",route="support",tenant="local"} 0.75',
    ]
    support.client.rollouts.abort("support")
    assert told() == []

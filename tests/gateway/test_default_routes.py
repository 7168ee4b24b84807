"""Who names nothing is answered by the default route of the key, else of the tenant, else by the base."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from graftwork.settings import Settings
from support.served import CHAT, HELLO
from support.tenants import Town, settle, shared
from traffic.routes.test_route import rule


@pytest.fixture
def town(settings: Settings, tmp_path: Path) -> Iterator[Town]:
    with shared(settings, tmp_path) as made:
        yield settle(made)


def ask(town: Town, token: str, path: str = CHAT, **fields: Any) -> httpx.Response:
    said = {"messages": HELLO} if path == CHAT else {"prompt": "a"} if path == "/v1/completions" else {"input": "a"}
    return town.shared.http(token).post(path, json={**said, **fields})


def said(answer: httpx.Response) -> tuple[str, str]:
    assert answer.status_code == 200, answer.text
    return answer.json()["model"], answer.json()["graftwork"]["decision"]


def test_the_key_s_default_comes_first_then_the_tenant_s_then_the_base(town: Town) -> None:
    made, operator = town.shared, town.shared.client(town.operator)
    made.push(town.acme, "desk:1.0.0", seed=3)
    keys = made.client(town.acme).keys
    key = keys.create(default_route="tone")
    assert key["default_route"] == "tone"
    plain = made.key("acme")
    assert said(ask(town, plain)) == ("fake-base", "default:base")
    assert operator.tenants.change("acme", default_route="desk")["default_route"] == "desk"
    for nothing in ({}, {"model": ""}, {"model": "default"}, {"model": None}):
        assert said(ask(town, plain, **nothing)) == ("desk:1.0.0", "default:newest")
        assert said(ask(town, key["key"], **nothing)) == ("tone:1.0.0", "default:newest")
    for path in ("/v1/completions", "/v1/embeddings"):
        assert said(ask(town, plain, path)) == ("desk:1.0.0", "default:newest")
    assert said(ask(town, plain, model="tone"))[0] == "tone:1.0.0", "who names something means it"
    assert said(ask(town, plain, adapter_id="tone"))[0] == "tone:1.0.0"
    assert said(ask(town, town.zeta)) == ("fake-base", "default:base"), "another tenant has its own"
    fresh = keys.rotate(key["id"])["key"]
    assert said(ask(town, fresh))[0] == "tone:1.0.0", "a key in its place means the same"
    keys.change(fresh.split("_")[1], default_route=None)
    assert said(ask(town, fresh))[0] == "desk:1.0.0"
    keys.change(fresh.split("_")[1], default_route="fake-base")
    assert said(ask(town, fresh)) == ("fake-base", "default:base"), "also where the tenant has another"
    operator.tenants.change("acme", default_route=None)
    assert said(ask(town, plain)) == ("fake-base", "default:base")


def test_a_default_is_a_route_with_its_rules_and_sessions_or_what_another_tenant_granted(town: Town) -> None:
    acme, operator = town.shared.client(town.acme), town.shared.client(town.operator)
    document = {"apiVersion": "adapters.graftwork.dev/v1alpha1", "kind": "Route", "metadata": {"name": "desk"}}
    acme.routes.set({**document, "spec": {"rules": [rule("all", reference="tone:1.0.0")]}})
    operator.tenants.change("acme", default_route="desk")
    assert said(ask(town, town.acme, session_id="s")) == ("tone:1.0.0", "default:all:stable")
    assert said(ask(town, town.acme, session_id="s")) == ("tone:1.0.0", "default:all:stable:session")
    town.shared.client(town.zeta).grants.create("acme", "voice")
    operator.tenants.change("acme", default_route="zeta/voice")
    assert said(ask(town, town.acme))[0] == "zeta/voice:1.0.0"


def test_a_default_that_means_nothing_yet_is_answered_as_any_such_name(town: Town) -> None:
    key = town.shared.client(town.acme).keys.create(default_route="coming")
    missing, named = ask(town, key["key"]), ask(town, key["key"], model="coming")
    assert (missing.status_code, missing.json()["error"]["code"]) == (404, "model_not_found")
    assert missing.json() == named.json()
    town.shared.push(town.acme, "coming:1.0.0", seed=4)
    assert said(ask(town, key["key"]))[0] == "coming:1.0.0"


@pytest.mark.parametrize(
    "wrong", ["Tone", "a b", "tone@champion", "tone:1.0.0", "default", "a/b/c", "/a", "v1", "n" * 400]
)
def test_what_is_no_name_is_no_default(town: Town, wrong: str) -> None:
    http, operator = town.shared.http(town.acme), town.shared.http(town.operator)
    key = town.acme.split("_")[1]
    for answer in (
        http.post("/api/v1/keys", json={"default_route": wrong}),
        http.patch(f"/api/v1/keys/{key}", json={"default_route": wrong}),
        operator.patch("/api/v1/tenants/acme", json={"default_route": wrong}),
        operator.post("/api/v1/tenants", json={"name": "new", "default_route": wrong}),
    ):
        assert (answer.status_code, answer.json()["field"]) == (400, "default_route")


def test_a_change_is_an_event_and_the_same_again_is_none(town: Town) -> None:
    acme, key = town.shared.client(town.acme), town.acme.split("_")[1]
    http = town.shared.http(town.acme)
    for _ in range(2):
        assert acme.keys.change(key, default_route="tone")["default_route"] == "tone"
    (event,) = http.get("/api/v1/events", params={"kind": "key.changed"}).json()["events"]
    assert event["payload"]["before"] == {"default_route": None}
    assert event["payload"]["after"] == {"default_route": "tone"}
    assert next(one for one in acme.keys.list() if one["id"] == key)["default_route"] == "tone"
    assert http.patch("/api/v1/keys/0000000000000000", json={"default_route": None}).status_code == 404
    assert http.patch(f"/api/v1/keys/{key}", json={}).status_code == 400
    assert town.shared.http(town.zeta).patch(f"/api/v1/keys/{key}", json={"default_route": None}).status_code == 404
    viewer = town.shared.http(town.shared.key("acme", "viewer"))
    assert viewer.patch(f"/api/v1/keys/{key}", json={"default_route": None}).status_code == 403

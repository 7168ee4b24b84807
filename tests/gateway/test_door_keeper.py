"""Before all doors: who is asking, by which name, with which rights, and how often."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from fastapi import APIRouter
from fastapi.routing import iter_route_contexts

from graftwork.access.roles import ROLES, Right, rights_of
from graftwork.access.tenants import LOCAL
from graftwork.gateway.door_keeper import duration
from graftwork.gateway.doors import DOORS, GRANTED
from graftwork.settings import Settings
from support.served import CHAT, HELLO, serving
from support.tenants import ALL_SCOPES, Shared, shared

WHO = "/api/v1/whoami"
ASK = {"messages": HELLO}


@pytest.fixture
def place(settings: Settings, tmp_path: Path) -> Iterator[Shared]:
    with shared(settings, tmp_path) as made:
        yield made


def test_every_door_of_the_app_says_which_right_it_asks_for(place: Shared) -> None:
    contexts = [getattr(one, "original_route", one) for one in iter_route_contexts(place.app.routes)]
    doors = {(method, one.path) for one in contexts for method in one.methods or ()}
    assert doors - {(method, "/openapi.json") for method in ("GET", "HEAD")} == DOORS.keys()
    assert all(DOORS[door] in (Right.READ, Right.DEPLOY) for door in GRANTED)


def test_a_door_without_a_line_opens_to_nobody(place: Shared, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graftwork.gateway.doors.DOORS", {})
    assert place.http().get("/v1/models").status_code == 403


def test_a_door_that_is_hung_on_the_app_itself_opens_to_nobody_either(place: Shared) -> None:
    extra = APIRouter()
    extra.add_api_route("/beside", lambda: "open")
    place.app.include_router(extra)
    place.app.add_api_route("/extra", lambda: "open")
    assert [place.http().get(path).status_code for path in ("/beside", "/extra")] == [403, 403]


def test_a_door_is_checked_once(place: Shared, monkeypatch: pytest.MonkeyPatch) -> None:
    class Asked(dict[tuple[str, str], Right | None]):
        def __contains__(self, door: object) -> bool:
            seen.append(door)
            return super().__contains__(door)

    seen: list[object] = []
    monkeypatch.setattr("graftwork.gateway.doors.DOORS", Asked(DOORS))
    for path in ("/health", "/v1/models", "/api/v1/routes", f"/api/v1/tenants/{LOCAL}/routes"):
        assert place.http().get(path).status_code == 200
    assert seen == [("GET", "/health"), ("GET", "/v1/models"), ("GET", "/routes"), ("GET", "/routes")]


def test_while_nobody_made_a_key_whoever_is_on_this_machine_is_its_administrator(place: Shared) -> None:
    found = place.http("whatever the client has set").get(WHO).json()
    assert (found["tenant"], found["name"], set(found["rights"])) == (LOCAL, LOCAL, {str(one) for one in Right})


def test_the_first_key_closes_the_server_and_its_revocation_does_not_open_it(place: Shared) -> None:
    token = place.key()
    assert place.http().get(WHO).status_code == 401
    public = place.http(token).get(WHO).json()["key"]
    place.tenancy.keys.revoke(LOCAL, public, actor="me")
    assert place.http(token).get(WHO).status_code == place.http().get(WHO).status_code == 401
    assert all(place.http().get(path).status_code == 200 for path in ("/health", "/ready", "/openapi.json"))


def test_whoever_made_the_app_in_his_own_process_needs_no_key(settings: Settings, tmp_path: Path) -> None:
    with serving(settings, tmp_path) as served:
        token = served.client.keys.create(role="viewer")["key"]
        assert served.client.whoami()["name"] == LOCAL
        as_viewer = served.http.get(WHO, headers={"authorization": f"Bearer {token}"}).json()
        assert as_viewer["rights"] == ["call", "read"]
        assert served.http.get(WHO, headers={"authorization": "Bearer gw_x"}).status_code == 401


def test_a_key_that_is_wrong_in_any_way_is_answered_as_none_is(place: Shared) -> None:
    good, gone, late = place.key(), place.key(), place.key("acme", expires_at="9999-01-01T00:00:00.000000Z")
    place.tenancy.keys.revoke(LOCAL, gone.split("_")[1], actor="me")
    other = "A" if good[-1] != "A" else "B"
    given = [None, "", "nonsense", gone, good[:-1] + other, late[:-1] + "~", "gw_0123456789abcdef_" + "x" * 43]
    for path, kind in ((CHAT, "application/json"), ("/api/v1/adapters", "application/problem+json")):
        answers = [place.http(token).request("POST" if path == CHAT else "GET", path, json=ASK) for token in given]
        assert {answer.status_code for answer in answers} == {401}
        assert {answer.headers["www-authenticate"] for answer in answers} == {"Bearer"}
        assert {answer.headers["content-type"] for answer in answers} == {kind}
        assert len({answer.content for answer in answers}) == 1
    body = place.http().post(CHAT, json=ASK).json()
    assert (body["error"]["code"], body["error"]["type"]) == ("invalid_api_key", "invalid_request_error")
    basic = place.http(authorization=f"Basic {good}").get(WHO)
    assert basic.status_code == 401 and place.http(authorization=f"bearer {good}").get(WHO).status_code == 200


@pytest.mark.parametrize(
    ("role", "scopes"), [*((role, ALL_SCOPES) for role in ROLES), ("admin", ("inference",)), ("admin", ("manage",))]
)
def test_a_door_opens_to_those_with_its_right_and_to_nobody_else(
    place: Shared, role: str, scopes: tuple[str, ...]
) -> None:
    http, rights = place.http(place.key("acme", role, scopes)), rights_of([role], scopes) - {Right.OPERATE}
    for (method, path), right in DOORS.items():
        if path in ("/health", "/ready"):
            continue
        prefix = "" if path.startswith(("/api/", "/v1", "/metrics")) else "/api/v1"
        url = prefix + path.replace("{model:path}", "x").replace("{", "").replace("}", "")
        answer = http.request(method, url, content=None if method in ("GET", "HEAD") else b"?")
        assert (answer.status_code == 403) == (right is not None and right not in rights), (method, url, answer)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:8080", "[::1]:8080", "LOCALHOST", "models.corp:1"])
def test_it_answers_to_names_of_this_machine_and_to_those_that_are_set(
    settings: Settings, tmp_path: Path, host: str
) -> None:
    with shared(settings.model_copy(update={"allowed_hosts": ("models.corp",)}), tmp_path) as place:
        assert place.http(host=host).get(WHO).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example:8080", "", "["])
def test_a_page_that_makes_its_name_resolve_to_this_machine_gets_nothing(place: Shared, host: str) -> None:
    answer = place.http(host=host).get("/api/v1/adapters")
    assert (answer.status_code, answer.json()["field"]) == (400, "Host")
    assert place.http(host=host).post(CHAT, json=ASK).status_code == 400


def test_the_user_is_who_a_trusted_proxy_says(settings: Settings, tmp_path: Path) -> None:
    told = {"x-user-id": "ann@example.com"}
    with shared(settings, tmp_path / "a") as place:
        assert place.http(**told).get(WHO).json()["user"] is None
    with shared(settings.model_copy(update={"trusted_proxies": ("127.0.0.0/8",)}), tmp_path / "b") as place:
        assert place.http(**told).get(WHO).status_code == 401  # others come through the proxy, so keys are needed
        found = place.http(place.key("acme", "viewer"), **told).get(WHO).json()
        assert (found["tenant"], found["user"], found["name"][:4]) == ("acme", "ann@example.com", "key:")
        assert place.http(place.key(), **{"x-user-id": "a b"}).get(WHO).json()["field"] == "X-User-Id"


def quota(place: Shared, **quotas: int) -> httpx.Client:
    """Somebody whose tenant has these quotas."""
    place.tenancy.tenants.change(LOCAL, {"quotas": quotas}, actor="me")
    return place.http(place.key())


def test_requests_beyond_the_quota_get_429_with_the_time_to_wait(place: Shared) -> None:
    http = quota(place, requests_per_minute=2)
    left = [http.post(CHAT, json=ASK).headers["x-ratelimit-remaining-requests"] for _ in range(2)]
    refused = http.post(CHAT, json=ASK)
    assert left == ["1", "0"] and refused.status_code == 429
    assert refused.json()["error"]["code"] == "rate_limit_exceeded"
    assert 1 <= int(refused.headers["retry-after"]) <= 30
    assert refused.headers["x-ratelimit-limit-requests"] == "2"
    assert refused.headers["x-ratelimit-reset-requests"] in ("1m0s", "59s")
    assert http.get("/v1/models").status_code == 200  # nothing is generated there
    assert place.http(place.key("acme")).post(CHAT, json=ASK).status_code == 200


@pytest.mark.parametrize("stream", [False, True])
def test_tokens_of_prompt_and_answer_are_counted_streamed_or_not(place: Shared, stream: bool) -> None:
    http = quota(place, tokens_per_minute=1000)
    assert http.post(CHAT, json={**ASK, "stream": stream}).status_code == 200
    spent = 3 + len(["fake-base", "says:", "hello", "big", "world"])
    answer = http.post(CHAT, json=ASK)  # whole, so that its own are counted before its headers leave
    assert int(answer.headers["x-ratelimit-remaining-tokens"]) == 1000 - 2 * spent


def test_who_has_overdrawn_waits_until_that_is_paid_back(place: Shared) -> None:
    http = quota(place, tokens_per_minute=5)
    assert http.post(CHAT, json=ASK).status_code == 200
    refused = http.post("/v1/embeddings", json={"input": "a"})
    assert refused.status_code == 429 and int(refused.headers["retry-after"]) > 30
    assert refused.headers["x-ratelimit-remaining-tokens"] == "0"


def test_embeddings_are_counted_too(place: Shared) -> None:
    http = quota(place, tokens_per_minute=10)
    assert http.post("/v1/embeddings", json={"input": ["a b c", "d"]}).headers["x-ratelimit-remaining-tokens"] == "6"


def test_a_request_counts_as_under_way_until_its_stream_ends(place: Shared) -> None:
    http = quota(place, concurrent=1)
    place.engine.pause_after = 1
    with http.stream("POST", CHAT, json={**ASK, "stream": True}) as answer:
        next(answer.iter_lines())
        refused = http.post(CHAT, json=ASK)
        assert refused.status_code == 429 and "at once" in refused.json()["error"]["message"]
    place.engine.pause_after = None
    assert http.post(CHAT, json=ASK).status_code == 200


def test_a_request_that_fails_is_over(place: Shared) -> None:
    http = quota(place, concurrent=1)
    for body in ({}, {**ASK, "model": "nobody"}, ASK):
        assert http.post(CHAT, json=body).status_code in (400, 404, 200)
    assert http.post(CHAT, json=ASK).status_code == 200


def test_adapters_and_bytes_beyond_the_quota_are_refused_and_the_same_bytes_are_not(place: Shared) -> None:
    quota(place, adapters=1)
    token = place.key()
    place.push(token, "one:1.0.0", seed=1)
    place.push(token, "one:1.0.0", seed=1)
    place.push(token, "one:2.0.0", seed=2)
    with pytest.raises(Exception, match="1 adapters"):
        place.push(token, "two:1.0.0", seed=3)
    size = place.client(token).show("one:1.0.0")["bytes"]
    quota(place, bytes=2 * size)
    place.push(token, "one:2.0.0", seed=2)
    with pytest.raises(Exception, match="bytes"):
        place.push(token, "one:3.0.0", seed=3)
    assert [one["name"] for one in place.client(token).adapters()] == ["one"]


def test_a_tenants_weight_and_salt_reach_the_engine(place: Shared) -> None:
    place.tenancy.tenants.change(LOCAL, {"weight": 4.0}, actor="me")
    http = place.http(place.key())
    for more in ({}, {"cache_salt": "mine"}, {"priority": 2}):
        assert http.post(CHAT, json={**ASK, **more}).status_code == 200
    callers = [request.caller for request in place.engine.requests]
    assert {caller.weight for caller in callers} == {4.0}
    salts = [caller.salt for caller in callers]
    assert salts[0] == salts[2] != salts[1] and len(salts[0]) == 64 and salts[0] in salts[1]


def test_durations_are_written_as_openai_writes_them() -> None:
    assert [duration(one) for one in (0.02, 1, 59.9, 360)] == ["20ms", "1s", "1m0s", "6m0s"]


def test_no_quotas_no_headers(place: Shared) -> None:
    answer = place.http().post(CHAT, json=ASK)
    assert not [name for name in answer.headers if name.startswith("x-ratelimit")]


def test_a_routes_own_door_counts_as_any_other(place: Shared) -> None:
    http = quota(place, requests_per_minute=2)
    place.push(place.key(), "tone:1.0.0")
    assert http.post("/r/tone" + CHAT, json=ASK).headers["x-ratelimit-remaining-requests"] == "1"
    assert http.post("/r/tone/v1/completions", json={"prompt": "a"}).headers["x-ratelimit-remaining-requests"] == "0"
    refused = http.post("/r/tone" + CHAT, json=ASK)
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "rate_limit_exceeded")
    assert place.http().post("/r/tone" + CHAT, json=ASK).json()["error"]["code"] == "invalid_api_key"

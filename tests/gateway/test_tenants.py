"""Tenants beside one another: what one has is not there for another, unless it was given."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from graftwork.access.access import Access
from graftwork.access.tenants import LOCAL
from graftwork.db import Database
from graftwork.gateway.doors import DOORS
from graftwork.settings import Settings
from graftwork.traffic.records.journal import Journal
from support.served import CHAT, HELLO
from support.tenants import Town, settle, shared

#: Bodies that the doors can read, so that it is not them that are answered.
BODIES: Mapping[str, Any] = {
    "stage": {"stage": "staging"},
    "approvals": {"verdict": "approved"},
    "deprecation": {"message": "no"},
    "promote": {"reference": "NAME:1.0.0"},
    "tags/x": {"value": "y"},
    "aliases/x": {"target": "1.0.0"},
    "policy": {"apiVersion": "adapters.graftwork.dev/v1alpha1", "kind": "Policy", "metadata": {"name": "NAME"}},
}
#: What answers the same for whatever name: it makes a thing of that name, or says of it only what holds for all.
MAKES = {("POST", "/adapters/{name}/versions"), ("GET", "/adapters/{name}/policy"), ("PUT", "/adapters/{name}/policy")}


@pytest.fixture
def town(settings: Settings, tmp_path: Path) -> Iterator[Town]:
    with shared(settings, tmp_path) as made:
        yield settle(made)


def told(answer: httpx.Response, *names: str) -> tuple[int, dict[str, str], str]:
    """An answer without what differs by nature: the request's id, the date, and the names that were asked for."""
    text, headers = answer.text, dict(answer.headers)
    headers.pop("x-graftwork-request", None)
    for name in names:
        text = text.replace(name, "NAME")
    return answer.status_code, headers, text


def doors_of_one_adapter() -> list[tuple[str, str]]:
    return sorted(door for door in DOORS if "{name}" in door[1] and door[1].startswith("/adapters"))


@pytest.mark.parametrize("warm", [False, True])
def test_behind_every_door_another_tenants_adapter_is_as_one_that_is_not_there(town: Town, warm: bool) -> None:
    if warm:
        town.shared.client(town.acme).load("tone")
        assert town.shared.http(town.acme).post(CHAT, json={"messages": HELLO, "model": "tone"}).status_code == 200
    http = town.shared.http(town.zeta)
    for method, path in doors_of_one_adapter():
        if (method, path) in MAKES:
            continue
        answers = []
        # `none` is nowhere; all names are of one length, so that the answers' lengths can be compared, too.
        for tenant, name in (("", "tone"), ("", "none"), ("acme", "tone"), ("acme", "none"), ("amce", "tone")):
            base = f"/api/v1/tenants/{tenant}" if tenant else "/api/v1"
            url = base + path.format(name=name, version="1.0.0", alias="x", key="x", number="1", document="1")
            ending = next((one for one in BODIES if url.endswith(one)), None)
            body = None if method == "GET" else {} if ending is None else BODIES[ending]
            text = None if body is None else str(body).replace("'", '"').replace("NAME", name)
            headers = {} if body is None else {"content-type": "application/json"}
            answers.append(
                (tenant, told(http.request(method, url, content=text, headers=headers), name, "acme", "amce"))
            )
        own = [one for tenant, one in answers if not tenant]
        others = [one for tenant, one in answers if tenant]
        assert own[0] == own[1] and own[0][0] in (404, 400), (method, path, own)
        assert others[0] == others[1] == others[2] and others[0][0] == 404, (method, path, others)


@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize("path", [CHAT, "/v1/completions", "/v1/embeddings", "/v1/classify", "/v1/models"])
def test_no_way_to_name_another_tenants_model_tells_whether_it_is_there(town: Town, path: str, warm: bool) -> None:
    acme = town.shared.client(town.acme)
    digest = acme.show("tone")["digest"]
    acme.set_alias("tone", "beta", "tone:1.0.0")
    if warm:
        acme.load("tone")
        acme.chat("hello", model="tone")
    http, before = town.shared.http(town.zeta), len(town.shared.engine.requests)
    unknown = "sha256:" + digest[7:][::-1]
    for there, not_there in (
        ("tone", "none"),
        ("acme/tone", "acme/none"),
        ("acme/tone", "amce/tone"),
        ("acme/tone:1.0.0", "acme/tone:9.9.9"),
        ("acme/tone@beta", "acme/none@beta"),
        (f"acme/tone@{digest}", f"acme/tone@{unknown}"),
        (f"tone@{digest}", f"none@{unknown}"),
        ("models:/acme/tone/1", "models:/acme/none/1"),
    ):
        answers = [told(ask(http, path, name), name) for name in (there, not_there)]
        assert answers[0] == answers[1] and answers[0][0] == 404, (there, answers)
    assert len(town.shared.engine.requests) == before
    listed = [one["id"] for one in http.get("/v1/models").json()["data"]]
    assert listed == ["fake-base", "voice"]


def ask(http: httpx.Client, path: str, model: str) -> httpx.Response:
    if path == "/v1/models":
        return http.get(f"{path}/{model}")
    said = {"messages": HELLO} if path == CHAT else {"prompt": "a"} if path == "/v1/completions" else {"input": "a"}
    return http.post(path, json={**said, "model": model})


def test_the_same_work_is_done_for_what_is_not_there_and_for_what_is_anothers(
    town: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    queries = list[str]()
    real = Database.reading

    def counting(self: Database) -> Any:
        queries.append("reading")
        return real(self)

    http = town.shared.http(town.zeta)
    monkeypatch.setattr(Journal, "put", lambda _self, _entry: None)  # what it commits later, readers would look at
    asyncio.run(town.shared.app.state.services.books.recorder.flush())
    assert ask(http, CHAT, "voice").status_code == 200
    monkeypatch.setattr(Database, "reading", counting)
    for model in ("acme/tone", "acme/none", "amce/tone", "tone", "none"):
        assert ask(http, CHAT, model).status_code == 404
    for path in ("acme/adapters/tone", "acme/adapters/none", "amce/adapters/tone"):
        assert http.get(f"/api/v1/tenants/{path}").status_code == 404
    assert queries == []  # not one of them asks the database: the snapshot alone is looked at


def test_what_is_granted_is_called_by_its_owners_name_and_nothing_else_is(town: Town) -> None:
    zeta, acme = town.shared.http(town.zeta), town.shared.client(town.acme)
    town.shared.push(town.acme, "tonal:1.0.0", seed=3)
    grant = acme.grants.create("zeta", "ton*")
    answer = ask(zeta, CHAT, "acme/tone")
    assert answer.json()["model"] == "acme/tone:1.0.0"
    assert [one["id"] for one in zeta.get("/v1/models").json()["data"]] == [
        "fake-base",
        "acme/tonal",
        "acme/tone",
        "voice",
    ]
    assert zeta.get("/v1/models/acme/tone").status_code == 200
    handle = town.shared.engine.requests[-1].adapter
    assert handle is not None and handle.tenant == "acme"
    assert town.shared.engine.requests[-1].caller.tenant == "zeta"
    assert ask(zeta, CHAT, "tone").status_code == 404
    assert zeta.get("/api/v1/tenants/acme/adapters/tone").status_code == 404  # called, not seen
    assert zeta.post("/api/v1/adapters/tone/pin", json={"reference": "acme/tone"}).status_code == 404
    acme.grants.remove(grant["id"])
    assert ask(zeta, CHAT, "acme/tone").status_code == 404


def test_several_of_different_owners_answer_together(town: Town) -> None:
    town.shared.client(town.acme).grants.create("zeta", "tone", "call")
    body = {"messages": HELLO, "adapters": [{"ref": "acme/tone", "scale": 0.5}, {"ref": "voice", "scale": 0.5}]}
    assert town.shared.http(town.zeta).post(CHAT, json=body).status_code == 200
    handle = town.shared.engine.requests[-1].adapter
    assert handle is not None and sorted(part.tenant for part, _ in handle.parts) == ["acme", "zeta"]


def test_a_grant_to_see_shows_one_adapter_and_changes_nothing(town: Town) -> None:
    zeta = town.shared.http(town.zeta)
    town.shared.client(town.acme).grants.create("zeta", "tone", "see")
    assert zeta.get("/api/v1/tenants/acme/adapters/tone").json()["name"] == "tone"
    assert zeta.get("/api/v1/tenants/acme/versions", params={"reference": "tone:1.0.0"}).status_code == 200
    for method, path in (
        ("GET", "adapters"),
        ("GET", "versions?reference=none"),
        ("GET", "events"),
        ("GET", "keys"),
        ("POST", "adapters/tone/rollback"),
        ("DELETE", "adapters/tone"),
    ):
        assert zeta.request(method, f"/api/v1/tenants/acme/{path}").status_code == 404, path
    assert ask(zeta, CHAT, "acme/tone").status_code == 404


def test_a_grant_to_manage_moves_pointers_under_the_givers_log_with_the_movers_name(town: Town) -> None:
    acme, zeta = town.shared.client(town.acme), town.shared.http(town.zeta)
    acme.grants.create("zeta", "tone", "manage")
    moved = zeta.post("/api/v1/tenants/acme/adapters/tone/promote", json={"reference": "tone:1.0.0"})
    assert moved.status_code == 200
    last = [event for event in acme.history("tone") if event["kind"] == "version.promoted"][-1]
    assert last["actor"].startswith("zeta/key:")
    viewer = town.shared.http(town.shared.key("zeta", "viewer"))
    assert viewer.post("/api/v1/tenants/acme/adapters/tone/rollback").status_code == 403


def test_an_operator_works_in_every_tenant_and_an_administrator_in_his_own(town: Town) -> None:
    operator, acme = town.shared.client(town.operator), town.shared.http(town.acme)
    assert [one["name"] for one in operator.tenants.list()] == ["acme", LOCAL, "zeta"]
    assert [one["name"] for one in acme.get("/api/v1/tenants").json()["tenants"]] == ["acme"]
    made = operator.keys.create(tenant="acme", name="second", role="viewer")
    assert town.shared.http(made["key"]).get("/api/v1/whoami").json()["tenant"] == "acme"
    assert (
        acme.get("/api/v1/events", params={"kind": "key.created"})
        .json()["events"][-1]["actor"]
        .startswith(f"{LOCAL}/key:")
    )
    for other in ("zeta", "nobody", LOCAL):
        answer = acme.get(f"/api/v1/tenants/{other}")
        assert told(answer, other) == told(acme.get(f"/api/v1/tenants/{(never := 'x' * len(other))}"), never)
    assert acme.post("/api/v1/tenants", json={"name": "mine"}).status_code == 403
    assert acme.patch("/api/v1/tenants/acme", json={"weight": 9}).status_code == 403
    assert operator.tenants.change("acme", weight=2, quotas={"adapters": 7})["quotas"]["adapters"] == 7
    assert town.shared.http(town.operator).get("/api/v1/tenants/nobody/adapters").status_code == 404


def test_a_key_is_told_once_and_listed_without_its_secret(town: Town) -> None:
    http = town.shared.http(town.acme)
    body = {"name": "ci", "role": "deployer", "scopes": ["manage", "read", "read"]}
    once = {"idempotency-key": "k1"}
    made = http.post("/api/v1/keys", json=body, headers=once)
    assert (made.status_code, made.headers["cache-control"]) == (201, "no-store")
    again = http.post("/api/v1/keys", json=body, headers=once)
    assert (again.status_code, again.json()) == (200, {**made.json(), "key": None})
    secret = made.json()["key"].rpartition(made.json()["id"] + "_")[2]
    hashes = [key.hash for key in access_of(town).keys.values()]
    for path in ("/api/v1/keys", "/api/v1/events", "/api/v1/audit/chain"):
        text = http.get(path).text
        assert made.json()["id"] in text and secret not in text
        assert not any(one in text for one in hashes)
    rotated = http.post(f"/api/v1/keys/{made.json()['id']}/rotate", json={"overlap_s": 0})
    assert rotated.status_code == 201
    states = {one["id"]: one["state"] for one in http.get("/api/v1/keys").json()["keys"]}
    assert (states[made.json()["id"]], states[rotated.json()["id"]]) == ("expired", "active")
    assert http.delete(f"/api/v1/keys/{rotated.json()['id']}").status_code == 204
    assert town.shared.http(rotated.json()["key"]).get("/api/v1/whoami").status_code == 401


def access_of(town: Town) -> Access:
    found: Access = town.shared.app.state.services.snapshots.current().part(Access)
    return found


def test_lists_are_paged(town: Town) -> None:
    http = town.shared.http(town.acme)
    for name in ("ann", "bob", "eve"):
        assert http.put(f"/api/v1/users/{name}", json={"role": "approver"}).status_code == 201
    page = http.get("/api/v1/users", params={"page_size": 2}).json()
    assert [one["name"] for one in page["users"]] == ["ann", "bob"]
    rest = http.get("/api/v1/users", params={"page_token": page["next_page_token"]}).json()
    assert ([one["name"] for one in rest["users"]], rest["next_page_token"]) == (["eve"], None)
    assert http.delete("/api/v1/users/eve").status_code == 204


def test_a_user_approves_under_their_own_name(town: Town) -> None:
    acme = town.shared.client(town.acme)
    acme.users.put("ann", role="approver")
    token = town.shared.key("acme", "approver", user="ann")
    found = town.shared.client(token).lifecycle.approve("tone:1.0.0")
    assert found["approval"] == "approved"
    assert acme.lifecycle.approvals("tone:1.0.0")["opinions"][0]["actor"] == "ann"
    assert town.shared.http(token).post("/api/v1/adapters/tone/rollback").status_code == 403


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/api/v1/tenants", {"name": "A"}),
        ("POST", "/api/v1/tenants", {"name": "b", "weight": 0}),
        ("POST", "/api/v1/tenants", {"name": "b", "quotas": {"requests": 3}}),
        ("POST", "/api/v1/tenants", {"name": "b", "quotas": {"concurrent": 0}}),
        ("POST", "/api/v1/keys", {"role": "owner"}),
        ("POST", "/api/v1/keys", {"scopes": []}),
        ("POST", "/api/v1/keys", {"expires_at": "2020-01-01T00:00:00Z"}),
        ("POST", "/api/v1/keys", {"user": "nobody"}),
        ("POST", "/api/v1/grants", {"tenant": "zeta", "pattern": "a*b*"}),
        ("POST", "/api/v1/grants", {"tenant": LOCAL, "pattern": "a"}),
        ("PUT", "/api/v1/users/local", {"role": "admin"}),
        ("PUT", "/api/v1/users/A", {}),
    ],
)
def test_what_makes_no_sense_is_a_400(town: Town, method: str, path: str, body: Mapping[str, Any]) -> None:
    answer = town.shared.http(town.operator).request(method, path, json=body)
    assert answer.status_code == 400 and re.match(r"\w", answer.json()["detail"])


def test_no_door_in_another_tenant_tells_whether_that_tenant_is_there(town: Town) -> None:
    http = town.shared.http(town.zeta)
    town.shared.client(town.acme).users.put("tone", role="viewer")  # whatever it is, there is one of that name
    for method, path in sorted(door for door in DOORS if not door[1].startswith(("/api/", "/v1/", "/v1", "/metrics"))):
        if path in ("/health", "/ready"):
            continue
        answers = []
        for tenant, name in (("acme", "tone"), ("acme", "none"), ("amce", "tone")):
            url = f"/api/v1/tenants/{tenant}{re.sub('{[a-z_]+}', name, path)}"
            content = None if method in ("GET", "HEAD", "DELETE") else b"{}"
            answer = http.request(method, url, content=content, headers={"content-type": "application/json"})
            answers.append(told(answer, "acme", "amce", name))
        assert answers[0] == answers[1] == answers[2] and answers[0][0] == 404, (method, path, answers)

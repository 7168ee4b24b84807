"""Routes over HTTP: documents, revisions, decisions at every inference door, and what they set of a request."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from graftwork.engine.request import ChatPrompt
from graftwork.errors import Conflict, Held, InvalidResource, PreconditionFailed, RouteRefused
from graftwork.gateway.app import build_app
from graftwork.settings import Settings
from support.databases import NewHome
from support.served import CHAT, HELLO, Served, serving

ROUTE = {"apiVersion": "adapters.graftwork.dev/v1alpha1", "kind": "Route"}
SUPPORT = "/api/v1/routes/support"


def document(*rules: dict[str, Any], name: str = "support") -> dict[str, Any]:
    return {**ROUTE, "metadata": {"name": name}, "spec": {"rules": list(rules)}}


def to(reference: str, **rule: Any) -> dict[str, Any]:
    return {**rule, "targets": [{"reference": reference}]}


def refuse(status: int = 403, message: str = "not here", **rule: Any) -> dict[str, Any]:
    return {**rule, "refuse": {"status": status, "message": message}}


@pytest.fixture(scope="module")
def stocked(tmp_path_factory: pytest.TempPathFactory, new_home: NewHome) -> Path:
    """A home with three versions of one adapter, the first in production; made once and copied for each test."""
    folder = tmp_path_factory.mktemp("stocked")
    with serving(settings_in(new_home(folder / "home")), folder) as served:
        for number in (0, 1, 2):
            served.push(f"tone:1.{number}.0", seed=number)
        served.client.promote("tone:1.0.0")
    return folder / "home"


@pytest.fixture
def tone(stocked: Path, tmp_path: Path) -> Iterator[Served]:
    """An app on such a home of its own."""
    shutil.copytree(stocked, tmp_path / "home")
    with serving(settings_in(tmp_path / "home"), tmp_path) as served:
        yield served


def settings_in(home: Path, **changes: Any) -> Settings:
    return Settings(home=home, base="fake-base", base_name="fake-base", port=0, **changes)


def ask(served: Served, headers: dict[str, str] | None = None, at: str = "", **fields: Any) -> httpx.Response:
    body = {"model": "support", "messages": HELLO, **fields}
    return served.http.post(at or CHAT, json=body, headers=headers or {})


def test_a_route_is_written_once_read_back_and_answers(tone: Served) -> None:
    rules = [to("tone:1.1.0", name="french", matches=[{"locale": "fr", "task": ["chat", "talk"]}]), to("tone")]
    made = tone.http.put(SUPPORT, json=document(*rules))
    assert (made.status_code, made.headers["location"]) == (201, SUPPORT)
    shown = tone.http.get(SUPPORT)
    assert shown.headers["etag"] == made.headers["etag"] == f'"{shown.json()["status"]["digest"]}"'
    rules[0]["matches"][0]["locale"] = ["fr"]
    assert {name: shown.json()[name] for name in ("metadata", "spec")} == {
        "metadata": {"name": "support"},
        "spec": {"rules": rules},
    }
    assert shown.json()["status"]["conditions"][0]["status"] == "True"
    answer = ask(tone, task="talk", locale="fr-CA")
    assert (answer.json()["model"], answer.json()["graftwork"]["rule"]) == ("tone:1.1.0", "french")
    assert answer.json()["graftwork"]["revision"] == 1
    assert answer.headers["x-graftwork-route"] == "support"
    assert answer.headers["x-graftwork-decision"] == "model:french:stable"
    assert ask(tone, task="talk", headers={"Accept-Language": "de, fr;q=0"}).json()["model"] == "tone:1.0.0"
    again = tone.http.put(SUPPORT, json=shown.json())
    assert (again.status_code, again.json()["status"]["revision"]) == (200, 1), "also with the status it was shown with"


def test_the_route_decides_at_every_inference_door_and_at_its_own(tone: Served) -> None:
    tone.client.routes.set(document(to("tone:1.1.0")))
    for path in ("chat/completions", "completions", "embeddings"):
        body: dict[str, Any] = {"messages": HELLO} if path.startswith("chat") else {"prompt": "a", "input": "a"}
        for at, model in ((f"/v1/{path}", {"model": "support"}), (f"/r/support/v1/{path}", {})):
            answer = tone.http.post(at, json={**body, **model})
            assert (answer.status_code, answer.json()["model"]) == (200, "tone:1.1.0"), at
            assert answer.headers["x-graftwork-route"] == "support"
    assert tone.http.post("/r/support/v1/classify", json={"input": "a"}).status_code == 400, "it has no head"
    assert tone.events("/r/support/v1/completions", prompt="a b")[0]["model"] == "tone:1.1.0"
    assert tone.http.get("/r/support/v1/models").json()["data"][0]["id"] == "support"
    assert tone.http.get("/r/support/v1/models/tone").status_code == 404


def test_at_its_own_door_a_model_is_a_version_that_the_route_leads_to(tone: Served) -> None:
    tone.client.routes.set(document(to("tone:1.1.0", matches=[{"task": "never"}]), to("tone")))
    door = "/r/support/v1/chat/completions"
    assert ask(tone, at=door, model="default").json()["model"] == "tone:1.0.0"
    assert ask(tone, at=door, model="support").json()["model"] == "tone:1.0.0"
    named = ask(tone, at=door, model="tone:1.1.0")
    assert (named.json()["model"], named.headers["x-graftwork-route"]) == ("tone:1.1.0", "support")
    tone.push("other", seed=7)
    for wrong in ({"model": "other"}, {"adapter_id": "other"}, {"adapters": [{"ref": "tone"}]}):
        refused = ask(tone, at=door, **wrong)
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, next(iter(wrong)))
    assert ask(tone, at="/r/tone/v1/chat/completions", model="tone:1.1.0").json()["model"] == "tone:1.1.0"
    for unknown in ({}, {"model": "tone"}):
        answer = tone.http.post("/r/nope/v1/chat/completions", json={"messages": HELLO, **unknown})
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "model_not_found")
    assert tone.http.post("/r/fake-base/v1/chat/completions", json={"messages": HELLO}).json()["model"] == "fake-base"


def test_every_change_is_a_revision_that_nobody_overwrites_unseen(tone: Served) -> None:
    first = tone.client.routes.set(document(to("tone")), expected="absent")["status"]["digest"]
    with pytest.raises(PreconditionFailed):
        tone.client.routes.set(document(to("tone:1.1.0")), expected="absent")
    second = tone.client.routes.set(document(to("tone:1.1.0")), expected=first, reason="try it")
    stale = tone.http.put(SUPPORT, json=document(to("tone")), headers={"If-Match": f'"{first}"'})
    assert (stale.status_code, stale.json()["code"]) == (412, "precondition_failed")
    assert ask(tone).json()["model"] == "tone:1.1.0"
    assert tone.client.routes.rollback("support", reason="worse")["status"]["revision"] == 1
    assert ask(tone).json()["model"] == "tone:1.0.0"
    with pytest.raises(Conflict, match="no earlier revision"):
        tone.client.routes.rollback("support")
    assert tone.client.routes.rollback("support", revision=2)["status"]["digest"] == second["status"]["digest"]
    found = [(one["status"]["revision"], one["status"]["live"]) for one in tone.client.routes.revisions("support")]
    assert found == [(2, True), (1, False)]
    tone.client.routes.remove("support")
    assert ask(tone).status_code == 404
    assert tone.client.routes.set(document(to("tone")))["status"]["revision"] == 3, "numbers are never given twice"
    kinds = [one["kind"] for one in tone.client.events.list(subject="routes/support")]
    assert kinds == ["route.set", "route.set", "route.rolled_back", "route.rolled_back", "route.removed", "route.set"]


def test_a_route_takes_the_place_of_an_adapter_s_own_name_in_either_order(tone: Served) -> None:
    tone.client.routes.set(document(to("tone:1.1.0"), name="tone"))
    assert ask(tone, model="tone").json()["model"] == "tone:1.1.0"
    assert ask(tone, model="tone:1.0.0").json()["graftwork"]["route"] == "tone"
    assert ask(tone, adapter_id="tone").json()["model"] == "tone:1.0.0", "an explicit adapter is no route"
    tone.client.routes.set(document(to("tone"), name="later"))
    tone.push("later", seed=5)
    assert ask(tone, model="later").json()["model"] == "tone:1.0.0"
    assert ask(tone, model="later:1.0.0").json()["model"] == "later:1.0.0"
    assert [one["id"] for one in tone.client.models()] == ["fake-base", "later", "tone"]
    tone.client.routes.remove("later")
    assert ask(tone, model="later").json()["model"] == "later:1.0.0"


def test_no_route_has_the_name_of_a_base_nor_a_base_that_of_a_route(tone: Served) -> None:
    with pytest.raises(Conflict, match="base model"):
        tone.client.routes.set(document(to("tone"), name="fake-base"))
    tone.client.routes.set(document(to("fake-base"), name="plain"))
    assert ask(tone, model="plain").json()["model"] == "fake-base", "the base may be a target"
    renamed = tone.app.state.services.settings.model_copy(update={"base_name": "plain"})
    with pytest.raises(Conflict, match="A route is named plain"):
        build_app(renamed, make_engine=lambda *_: tone.engine)


def test_a_rule_refuses_with_its_own_status_and_message(tone: Served) -> None:
    statuses = (403, 404, 410, 429, 451, 503)
    rules = [
        refuse(each, "closed", matches=[{"headers": [{"name": "X-Plan", "exact": str(each)}]}]) for each in statuses
    ]
    tone.client.routes.set(document(*rules, to("tone")))
    for status in statuses:
        refused = ask(tone, headers={"X-Plan": str(status)})
        assert (refused.status_code, refused.json()["error"]["message"]) == (status, "closed")
        assert refused.json()["error"]["code"] == "route_refused"
    assert ask(tone, headers={"X-Plan": "gold"}).status_code == 200


def test_what_leads_nowhere_is_told_when_it_is_written_and_when_it_is_asked(tone: Served) -> None:
    made = tone.client.routes.set(
        document(to("nope:1.0.0", matches=[{"task": "a"}]), to("tone", matches=[{"task": "b"}]))
    )
    condition = made["status"]["conditions"][0]
    assert (condition["status"], condition["message"]) == ("False", "nope:1.0.0 names no version")
    lost = ask(tone, task="a")
    assert lost.status_code == 404
    assert "leads to nope:1.0.0 (arm stable), which names no version" in lost.json()["error"]["message"]
    assert "No rule of the route support fits" in ask(tone, task="c").json()["error"]["message"]


def test_a_version_that_a_live_route_leads_to_is_not_deleted(tone: Served) -> None:
    tone.client.routes.set(document(to("tone:1.1.0")))
    with pytest.raises(Held) as held:
        tone.client.retention.delete("tone:1.1.0")
    assert [(one["kind"], one["name"]) for one in held.value.holders] == [("route", "support")]
    tone.client.routes.set(document(to("tone:1.2.0")))
    tone.client.retention.delete("tone:1.1.0")


def test_defaults_hold_where_the_request_says_nothing_and_limits_always(tone: Served) -> None:
    limits = {"maxTokens": 3, "temperature": {"max": 0.5}}
    defaults = {"systemPrompt": "Be brief.", "companions": "base", "temperature": 0.25, "limits": limits}
    tone.client.routes.set(document(to("tone", defaults=defaults)))
    assert ask(tone).json()["usage"]["completion_tokens"] == 3
    request = tone.engine.requests[-1]
    assert isinstance(request.prompt, ChatPrompt)
    assert (request.prompt.messages[0], request.companions) == ({"role": "system", "content": "Be brief."}, False)
    assert request.params.temperature == 0.25
    ask(tone, messages=[{"role": "system", "content": "Mine."}, *HELLO], temperature=0.5, max_tokens=2)
    request = tone.engine.requests[-1]
    assert isinstance(request.prompt, ChatPrompt)
    assert request.prompt.messages[0]["content"] == "Mine."
    assert (request.params.temperature, request.params.max_tokens) == (0.5, 2)
    asked: tuple[dict[str, Any], ...] = ({"max_tokens": 4}, {"temperature": 0.75})
    for more in asked:
        refused = ask(tone, **more)
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, next(iter(more)))


def test_explain_says_which_rule_why_none_before_it_and_which_arm(tone: Served) -> None:
    targets = [{"reference": "tone:1.1.0", "weight": 1, "arm": "canary"}, {"reference": "tone@production", "weight": 3}]
    night = {"times": [{"zone": "Europe/Berlin", "from": "22:00", "to": "06:00"}], "region": "eu"}
    tone.client.routes.set(document(refuse(name="night", matches=[night, {"user": "eve"}]), {"targets": targets}))
    told = tone.client.routes.explain("support", region="us", user="ann", at="2026-01-31T12:00:00Z")
    first, second = told["rules"]
    assert (first["rule"], first["fits"], second["fits"]) == ("night", False, True)
    assert first["matches"][1]["why"] == ["user is 'ann', not eve"]
    assert any("the time is 2026-01-31T12:00:00" in why for why in first["matches"][0]["why"])
    assert (told["rule"], told["key"]) == ("rule-2", "user:ann")
    assert [(one["arm"], one["share"], one["model"]) for one in told["arms"]] == [
        ("canary", 0.25, "tone:1.1.0"),
        ("stable", 0.75, "tone:1.0.0"),
    ]
    assert told["arm"] == ("canary" if told["point"] < 0.25 else "stable")
    late = tone.client.routes.explain("support", region="eu", at="2026-01-31T22:30:00Z")
    assert (late["rule"], late["refusal"]) == ("night", {"status": 403, "message": "not here"})
    assert tone.client.routes.explain("tone")["model"] == "tone:1.0.0", "an implicit route too"
    assert tone.http.post("/api/v1/routes/nope/explain", json={}).status_code == 404


def test_the_decision_is_told_whole_where_that_is_asked_for(tone: Served) -> None:
    tone.client.routes.set(document(to("tone@production")))
    told = ask(tone, headers={"X-Graftwork-Debug": "1"}).headers["x-graftwork-decision"]
    assert told.startswith('model:rule-1:stable; revision=1; rule="rule-1"; reference="tone@production"; point=0.')


def test_region_and_user_count_only_from_a_trusted_proxy(tone: Served) -> None:
    tone.push("user-ann", seed=4)
    tone.client.routes.set(document(refuse(451, matches=[{"region": "eu"}]), to("user-{user}")))
    said = {"X-Region": "eu", "X-User-Id": "ann"}
    assert ask(tone, headers=said).status_code == 404, "nobody is trusted, so there is no user"
    trusting = tone.app.state.services.settings.model_copy(update={"trusted_proxies": ("10.0.0.0/8",)})
    with serving(trusting, tone.folder) as other:
        assert other.client.ready() == ()
        said |= {"authorization": f"Bearer {other.client.keys.create()['key']}"}  # where others come, keys are wanted
        app = httpx.ASGITransport(other.app, client=("10.1.2.3", 1))
        for headers, status in (
            (said, 451),
            ({**said, "X-Region": "us"}, 200),
            ({**said, "X-Region": "", "X-User-Id": "a@b"}, 404),
        ):
            assert _from(app, headers).status_code == status
        stranger = httpx.ASGITransport(other.app, client=("192.0.2.1", 1))
        assert _from(stranger, {**said, "X-Forwarded-For": "10.1.2.3"}).status_code == 404


def test_where_no_proxy_says_a_region_it_is_the_home_of_the_tenant(tone: Served) -> None:
    tone.client.routes.set(document(refuse(451, matches=[{"region": "eu"}]), to("tone")))
    assert ask(tone).status_code == 200
    tone.client.tenants.change("local", home_region="eu")
    assert ask(tone).status_code == 451


def _from(transport: httpx.ASGITransport, headers: dict[str, str]) -> httpx.Response:
    import asyncio

    async def send() -> httpx.Response:
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as http:
            return await http.post(CHAT, json={"model": "support", "messages": HELLO}, headers=headers)

    return asyncio.run(send())


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"rules": []}, "spec.rules"),
    ({"rules": [{"targets": [{"reference": "tone"}], "weigth": 1}]}, "spec.rules.0.weigth"),
    ({"rules": [{}]}, "spec.rules.0"),
    ({"rules": [to("tone", refuse={"message": "no"})]}, "spec.rules.0"),
    ({"rules": [to("tone", matches=[{}])]}, "spec.rules.0.matches.0"),
    ({"rules": [to("tone:not-a-version")]}, "spec.rules.0.targets.0.reference"),
    ({"rules": [{"targets": [{"reference": "tone", "weight": 1}, {"reference": "tone"}]}]}, "spec.rules.0"),
    ({"rules": [{"targets": [{"reference": "tone", "weight": 0}]}]}, "spec.rules.0.targets.0.weight"),
    ({"rules": [{"targets": [{"reference": "a", "arm": "x"}, {"reference": "b", "arm": "x"}]}]},
     "spec.rules.0.targets"),
    ({"rules": [to("tone", name="a"), to("tone", name="a")]}, "spec.rules.1.name"),
    ({"rules": [refuse(200)]}, "spec.rules.0.refuse.status"),
    ({"rules": [to("tone", matches=[{"locale": "not a tag"}])]}, "spec.rules.0.matches.0.locale.0"),
    ({"rules": [to("tone", matches=[{"times": [{"zone": "Europe/Nowhere"}]}])]},
     "spec.rules.0.matches.0.times.0.zone"),
    ({"rules": [to("tone", matches=[{"times": [{"zone": "UTC", "from": "09:00", "to": "09:00"}]}])]},
     "spec.rules.0.matches.0.times.0"),
    ({"rules": [to("tone", matches=[{"headers": [{"name": "X", "regex": "(a"}]}])]},
     "spec.rules.0.matches.0.headers.0.regex"),
    ({"rules": [to("tone", matches=[{"headers": [{"name": "X", "exact": "a", "prefix": "a"}]}])]},
     "spec.rules.0.matches.0.headers.0"),
]  # fmt: skip


def test_what_is_wrong_in_a_document_is_named(tone: Served) -> None:
    for spec, field in WRONG:
        answer = tone.http.put(SUPPORT, json={**document(), "spec": spec})
        assert (answer.status_code, answer.json()["code"], answer.json()["field"]) == (422, "invalid_resource", field)
    with pytest.raises(InvalidResource):
        tone.client.routes.set(document())


def test_lists_are_paged_by_name(tone: Served) -> None:
    for name in ("a", "b-1", "b.2"):
        tone.client.routes.set(document(to("tone"), name=name))
    first = tone.http.get("/api/v1/routes?page_size=2").json()
    assert ([one["metadata"]["name"] for one in first["routes"]], first["next_page_token"]) == (["a", "b-1"], "b-1")
    assert [one["metadata"]["name"] for one in tone.client.routes.list()] == ["a", "b-1", "b.2"]


def test_a_refusal_reaches_a_client_as_what_it_is() -> None:
    from graftwork.protocol.errors import error_from

    error = error_from(451, {"error": {"message": "no", "code": "route_refused"}})
    assert isinstance(error, RouteRefused)
    assert (error.status, error.message) == (451, "no")

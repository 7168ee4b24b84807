"""Tasks over HTTP: set, listed, run on one text or on many; each input has its own result or its own error."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest

from graftwork.engine.grammar import Grammar
from graftwork.engine.request import ChatPrompt
from graftwork.errors import (
    GenerationFailed,
    Held,
    InvalidRequest,
    NotFound,
    PreconditionFailed,
    TooManyRequests,
    UnreadableAnswer,
)
from graftwork.gateway.app import build_app
from graftwork.gateway.errors import CLIENT_CLOSED_REQUEST
from graftwork.protocol.tasks import TaskSpec
from graftwork.settings import Settings
from graftwork.testing import FAKE_BASE, FakeEngine
from support.served import Served, usage

PATH = "/v1/tasks"
DOCUMENTS = "/api/v1/tasks"
LABEL = {"type": "label", "choices": ["yes", "no"]}


def document(name: str = "mood", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "adapters.graftwork.dev/v1alpha1",
        "kind": "Task",
        "metadata": {"name": name},
        "spec": spec,
    }


def run(served: Served, **body: Any) -> httpx.Response:
    return served.http.post(PATH, json={"task": "mood", **body})


def test_a_text_becomes_a_result_signed_by_who_gave_it(served: Served) -> None:
    digest = served.push("alpha:1.4.0")["digest"]
    served.client.tasks.set(document(adapter="alpha", output=LABEL))
    served.engine.answers["so good"] = "yes"
    response = run(served, text="so good")
    answer = response.json()
    assert response.status_code == 200
    assert answer["id"] == f"task-{response.headers['x-graftwork-request']}"
    shown = {key: answer[key] for key in ("object", "task", "result", "text", "finish_reason", "error", "model")}
    assert shown == {
        "object": "task.result",
        "task": "mood",
        "result": "yes",
        "text": "yes",
        "finish_reason": "stop",
        "error": None,
        "model": "alpha:1.4.0",
    }
    assert answer["usage"] == usage(2, 1)
    assert (answer["graftwork"]["digest"], answer["graftwork"]["task"]) == (digest, "mood/1")
    assert (response.headers["x-graftwork-task"], response.headers["x-graftwork-digest"]) == ("mood/1", digest)
    [asked] = served.engine.requests
    assert asked.grammar == Grammar("choice", '["yes", "no"]', "spec.output.choices")
    assert asked.prompt == ChatPrompt(({"role": "user", "content": "so good"},))
    assert (asked.params.temperature, asked.usual_tokens) == (0.0, 256)


def test_each_input_has_its_result_or_its_error_in_order(served: Served) -> None:
    fields = {"word": {"type": "string", "maxLength": 5, "default": "good"}}
    prompt = {"text": "{{ text }} {{ word }}?"}
    served.client.tasks.set(document(output=LABEL, fields=fields, prompt=prompt))
    served.engine.answers |= {"is it good?": "yes", "is it bad?": "no", "what good?": "maybe", "long good?": "no"}
    inputs = [
        "is it",
        {"text": "is it", "fields": {"word": "bad"}},
        {"text": "is it", "fields": {"word": "dreadful"}},
        "what",
        "word " * 300,
        {"text": "long"},
    ]
    answer = run(served, inputs=inputs).json()
    assert [one["index"] for one in answer["data"]] == list(range(6))
    assert [one["result"] for one in answer["data"]] == ["yes", "no", None, None, None, "no"]
    errors = [one["error"] for one in answer["data"]]
    assert [error and (error["code"], error["param"]) for error in errors] == [
        None,
        None,
        ("invalid_request", "inputs.2.fields.word"),
        ("unreadable_answer", None),
        ("invalid_request", "inputs.4.text"),
        None,
    ]
    assert answer["data"][3]["text"] == "maybe"  # what the model said stays to be seen
    assert (answer["object"], answer["model"]) == ("list", FAKE_BASE)
    total = [sum(one["usage"][key] for one in answer["data"]) for key in ("prompt_tokens", "completion_tokens")]
    assert answer["usage"] == usage(*total)
    assert total[1] == 4


def test_an_answer_that_cannot_be_read_is_a_422_that_shows_it(served: Served) -> None:
    served.client.tasks.set(document(output={"type": "json", "schema": {"type": "object"}}))
    served.engine.answers["x"] = "Sure! {}"
    response = run(served, text="x")
    answer = response.json()
    assert response.status_code == 422
    assert answer["error"]["code"] == "unreadable_answer"
    assert (answer["result"], answer["text"], answer["usage"]["completion_tokens"]) == (None, "Sure! {}", 2)
    with pytest.raises(UnreadableAnswer, match="The answer is not JSON") as wrong:
        served.client.tasks.run("mood", "x")
    assert wrong.value.text == "Sure! {}"


def test_a_task_answers_by_whoever_its_adapters_name_means_unless_the_request_names_another(served: Served) -> None:
    for number in (1, 2):
        served.push(f"alpha:{number}.0.0", seed=number)
    served.push("beta:1.0.0", seed=3)
    served.client.tasks.set(document(adapter="alpha"))

    def model(headers: dict[str, str] | None = None, **body: Any) -> Any:
        return served.http.post(PATH, json={"task": "mood", "text": "x", **body}, headers=headers).json()["model"]

    assert model() == "alpha:2.0.0"
    served.client.promote("alpha:1.0.0")
    assert model() == model(model="") == model(model="default") == "alpha:1.0.0"
    assert model(adapter_id="alpha:2.0.0") == model(model="alpha:2.0.0") == "alpha:2.0.0"
    assert model({"X-Adapter-Id": "beta"}) == "beta:1.0.0"
    assert model(model=FAKE_BASE) == FAKE_BASE
    assert model(adapters=[{"ref": "alpha", "scale": 0.5}]).startswith("alpha:1.0.0*0.5")


def test_what_is_not_there_is_a_404_that_says_what(served: Served) -> None:
    served.client.tasks.set(document(adapter="alpha"))
    assert served.client.tasks.show("mood")["status"]["answers"] is None
    missing = run(served, text="x")
    assert (missing.status_code, missing.json()["error"]["message"]) == (
        404,
        "The task mood is for the adapter 'alpha', which does not exist. Push it, or set the task anew.",
    )
    for name in ("nope", "alpha:9.0.0", "../x", "é", ""):
        other = run(served, text="x", adapter_id=name)
        assert (other.status_code, other.json()["error"]["code"]) == (404, "model_not_found")
    for name in ("nope", "../mood", "MOOD", ""):
        unknown = run(served, task=name, text="x")
        assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "not_found")
        assert unknown.json()["error"]["message"].startswith(f"The task {name!r} does not exist.")
    assert served.engine.requests == []


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"text": "a", "inputs": ["b"]},
        {"inputs": []},
        {"inputs": ["a"] * 257},
        {"inputs": [1]},
        {"inputs": [{"text": "a", "texts": "b"}]},
        {"text": "a", "stream": True},
        {"text": "a", "temperature": 1},
        {"text": "a", "fields": {"nope": 1}},
    ],
)
def test_a_wrong_body_is_a_400(served: Served, body: dict[str, Any]) -> None:
    served.client.tasks.set(document())
    assert run(served, **body).status_code == 400


def test_sampling_is_the_tasks_and_then_the_adapters(served: Served) -> None:
    sampling = {"temperature": 0.5, "topP": 0.9, "topK": 5, "seed": 3, "maxTokens": 2, "stop": ["."]}
    served.client.tasks.set(document(sampling=sampling))
    answer = run(served, text="x").json()
    params = served.engine.requests[0].params
    given = (params.temperature, params.top_p, params.top_k, params.seed, params.max_tokens, params.stop)
    assert given == (0.5, 0.9, 5, 3, 2, (".",))
    assert (answer["finish_reason"], answer["result"]) == ("length", "fake-base says:")  # a text that ends early is one


def test_a_failing_row_leaves_its_neighbours_and_a_full_server_is_a_429(served: Served) -> None:
    served.push("alpha:1.0.0")
    served.client.tasks.set(document(adapter="alpha"))
    served.engine.failures["alpha:1.0.0"] = GenerationFailed("row 3 is NaN")
    assert run(served, text="x").json()["error"]["code"] == "generation_failed"
    answer = run(served, inputs=["a", "b"])
    assert answer.status_code == 200
    assert [one["error"]["code"] for one in answer.json()["data"]] == ["generation_failed"] * 2
    served.engine.failures["alpha:1.0.0"] = TooManyRequests("full", retry_after_s=7)
    full = run(served, inputs=["a", "b"])
    assert (full.status_code, full.headers["retry-after"]) == (429, "7")
    served.engine.failures["alpha:1.0.0"] = ValueError("/secret/path")
    broken = run(served, inputs=["a", "b"])
    assert broken.status_code == 500 and "secret" not in broken.text
    assert served.engine.stats().running == 0


async def test_a_batch_is_rows_side_by_side_and_all_are_free_when_the_client_leaves(settings: Settings) -> None:
    engine = FakeEngine(pause_after=1)
    app = build_app(settings, engine=engine, outline_of=lambda: engine.outline)
    sent: list[Any] = []
    coming = [{"type": "http.request", "body": json.dumps({"task": "mood", "inputs": ["x"] * 8}).encode()}]

    async def receive() -> dict[str, Any]:
        if coming:
            return coming.pop()
        while engine.stats().running < 8:
            await asyncio.sleep(0)
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": PATH,
        "query_string": b"",
        "headers": [(b"host", b"localhost"), (b"content-type", b"application/json")],
    }
    async with app.router.lifespan_context(app):
        app.state.services.tasks.set("local", "mood", TaskSpec(), actor="me")
        await app(scope, receive, send)
    assert (len(engine.requests), len(engine.aborted), engine.stats().running) == (8, 8, 0)
    assert sent[0]["status"] == CLIENT_CLOSED_REQUEST


def test_a_task_is_set_shown_listed_and_removed(served: Served) -> None:
    made = served.http.put(f"{DOCUMENTS}/mood", json=document(output=LABEL), params={"reason": "new"})
    assert (made.status_code, made.headers["location"]) == (201, f"{DOCUMENTS}/mood")
    shown = served.http.get(f"{DOCUMENTS}/mood")
    assert shown.json() == made.json() and shown.headers["etag"] == made.headers["etag"]
    assert shown.json()["status"]["answers"] == FAKE_BASE
    again = served.http.put(f"{DOCUMENTS}/mood", json=shown.json())  # what is shown can be set, status and all
    assert (again.status_code, again.json()) == (200, made.json())
    other = served.client.tasks.set(document(adapter="alpha"), expected=made.json()["status"]["digest"])
    assert other["status"]["revision"] == 2
    with pytest.raises(PreconditionFailed):
        served.client.tasks.set(document(), expected="absent")
    assert [one["metadata"]["name"] for one in served.client.tasks.list()] == ["mood"]
    told = [one["status"] for one in served.client.tasks.revisions("mood")]
    assert [(one["revision"], one["reason"], one["live"]) for one in told] == [(2, None, True), (1, "new", False)]
    assert served.client.tasks.rollback("mood")["status"]["revision"] == 1
    served.client.tasks.remove("mood", reason="over")
    with pytest.raises(NotFound):
        served.client.tasks.show("mood")
    assert run(served, text="x").status_code == 404


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"adaptor": "x"}, "spec.adaptor"),
        ({"adapter": "../x"}, "spec.adapter"),
        ({"prompt": {"text": "{{ text"}}, "spec.prompt.text"),
        ({"prompt": {"text": "{{ text | nope }}"}}, "spec.prompt.text"),
        ({"prompt": {"text": "{{ lang }}"}}, "spec.prompt.text"),
        ({"prompt": {"messages": [{"role": "user", "content": "{{ lang }}"}]}}, "spec.prompt.messages.0.content"),
        ({"prompt": {"text": "a", "messages": [{"role": "user", "content": "a"}]}}, "spec.prompt"),
        ({"prompt": {"text": "a" * 16_385}}, "spec.prompt.text"),
        ({"fields": {"text": {"type": "string"}}}, "spec.fields.text"),
        ({"fields": {"a": {"type": "string", "default": 1}}}, "spec.fields.a"),
        ({"fields": {"a": {"type": "integer", "enum": [1, "2"]}}}, "spec.fields.a"),
        ({"output": {"type": "label"}}, "spec.output.choices"),
        ({"output": {"type": "label", "choices": ["a", "a"]}}, "spec.output.choices"),
        ({"output": {"type": "json"}}, "spec.output.schema"),
        ({"output": {"type": "json", "schema": {"enum": ["x" * 65_536]}}}, "spec.output.schema"),
        ({"output": {"type": "text", "pattern": "a"}}, "spec.output.pattern"),
        ({"output": {"type": "regex", "pattern": "(?=a)"}}, "spec.output.pattern"),
        ({"output": LABEL, "sampling": {"stop": ["e"]}}, "spec.sampling.stop"),
        ({"sampling": {"temperature": 3}}, "spec.sampling.temperature"),
    ],
)
def test_a_task_that_could_never_be_run_is_refused_by_field(served: Served, spec: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidRequest) as wrong:
        served.client.tasks.set(document(**spec))
    assert wrong.value.field == field


@pytest.mark.parametrize("name", ["Mood", "latest", "a/b", "-", "x" * 129])
def test_names_follow_the_grammar(served: Served, name: str) -> None:
    with pytest.raises(InvalidRequest):
        served.client.tasks.set(document(name))


def test_path_and_document_name_the_same(served: Served) -> None:
    assert served.http.put(f"{DOCUMENTS}/other", json=document()).status_code == 422
    assert served.http.put("/api/v1/tenants/local/tasks/mood", json=document()).status_code == 201
    assert served.http.get("/api/v1/tenants/other/tasks/mood").status_code == 404


def test_routes_decide_for_tasks_too_and_bound_them(served: Served) -> None:
    for number in (1, 2):
        served.push(f"alpha:{number}.0.0", seed=number)
    served.client.tasks.set(document(adapter="alpha", sampling={"temperature": 1.5, "maxTokens": 50}))
    limits = {"maxTokens": 4, "temperature": {"max": 0.5}}
    rules = [
        {"matches": [{"task": ["mood"]}], "targets": [{"reference": "alpha:1.0.0"}], "defaults": {"limits": limits}},
        {"targets": [{"reference": "alpha:2.0.0"}]},
    ]
    route = {**document("alpha"), "kind": "Route", "spec": {"rules": rules}}
    made = served.http.put("/api/v1/routes/alpha", json=route)
    assert made.status_code in (200, 201), made.text
    assert served.client.tasks.show("mood")["status"]["answers"] == "alpha"
    assert run(served, text="x").json()["model"] == "alpha:1.0.0"
    params = served.engine.requests[-1].params
    assert (params.temperature, params.max_tokens, served.engine.requests[-1].most_tokens) == (0.5, 4, 4)
    assert served.chat(model="alpha").json()["model"] == "alpha:2.0.0"
    served.http.put("/api/v1/routes/other", json={**route, "metadata": {"name": "other"}, "spec": {"rules": rules[1:]}})
    there = served.http.post("/r/other/v1/tasks", json={"task": "mood", "text": "x"})
    assert (there.status_code, there.json()["model"]) == (200, "alpha:2.0.0")


def test_a_version_that_answers_a_task_is_not_deleted(served: Served) -> None:
    for number in (1, 2):
        served.push(f"alpha:{number}.0.0", seed=number)
    served.client.tasks.set(document(adapter="alpha:1.0.0"))
    with pytest.raises(Held, match="the task mood is answered by") as held:
        served.client.retention.delete("alpha:1.0.0")
    assert [(one["kind"], one["name"]) for one in held.value.holders] == [("task", "mood")]
    with pytest.raises(Held):
        served.client.retention.delete_adapter("alpha")
    served.client.tasks.remove("mood")
    served.client.retention.delete("alpha:1.0.0")

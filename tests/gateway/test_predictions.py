"""Every answer is recorded: what it was, who gave it and why, what came of it; and records go when they should."""

from __future__ import annotations

import csv
import io
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from sqlalchemy import text

from graftwork.access.principal import Principal
from graftwork.errors import GenerationFailed, NotFound, Refused, Unavailable
from graftwork.gateway import door_keeper, request_scope
from graftwork.protocol.resource import API_VERSION
from graftwork.settings import Settings
from graftwork.testing import FAKE_BASE, FakeEngine
from graftwork.traffic.records.entry import Entries
from support.rollouts import canary, document, hold, weight
from support.served import CHAT, HELLO, Served, serving

SHARED = {"user": "ann", "session_id": "s1"}


@pytest.fixture
def busy(served: Served) -> Served:
    """One version, promoted."""
    served.push("alpha")
    served.client.promote("alpha:1.0.0", reason="passed review")
    return served


def recording(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": API_VERSION, "kind": "Recording", "spec": spec}


def one_of(served: Served, answer: httpx.Response) -> dict[str, Any]:
    """The record of an answer."""
    found: dict[str, Any] = served.client.predictions.explain(answer.headers["x-graftwork-request"])["prediction"]
    return found


def test_an_answer_is_recorded_with_who_gave_it_and_why_and_what_it_took(busy: Served) -> None:
    busy.engine.cached_tokens = 2
    answer = busy.chat(model="alpha", temperature=0.5, max_tokens=3, **SHARED)
    record = one_of(busy, answer)
    told = answer.json()["graftwork"]
    assert record["request_id"] == told["request"] and record["door"] == CHAT
    assert (record["asked"], record["adapter"], record["model"]) == ("alpha", "alpha", "alpha:1.0.0")
    assert [record[name] for name in ("digest", "route", "arm", "decision")] == [
        told[name] for name in ("digest", "route", "arm", "decision")
    ]
    assert record["adapters"] == [
        {"adapter": "alpha", "version": "1.0.0", "sequence": 1, "digest": told["digest"], "scale": 1.0}
    ]
    assert record["base_digest"] == busy.engine.outline.weights_digest
    assert record["sampling"] == {"temperature": 0.5, "max_tokens": 3}
    assert (record["prompt_tokens"], record["output_tokens"], record["cached_tokens"]) == (3, 3, 2)
    assert 0 < record["ttft_s"] <= record["latency_s"]
    assert (record["outcome"], record["status"], record["finish_reason"]) == ("ok", 200, "length")
    assert (record["principal"], record["user_id"], record["session_id"]) == ("local", "ann", "s1")
    assert record["engine"].startswith("graftwork/")


def test_hashes_tell_equal_texts_and_nothing_else(busy: Served) -> None:
    first, same, other = busy.chat(), busy.chat(), busy.chat(messages=[{"role": "user", "content": "else"}])
    records = [one_of(busy, answer) for answer in (first, same, other)]
    assert records[0]["prompt_hash"] == records[1]["prompt_hash"] != records[2]["prompt_hash"]
    assert records[0]["answer_hash"] == records[1]["answer_hash"] != records[2]["answer_hash"]
    assert all(record["prompt_hash"].startswith("hmac-sha256:") for record in records)
    assert "hello" not in str(records)


def test_streams_completions_and_choices_are_recorded_as_one_request_each(busy: Served) -> None:
    busy.events(model="alpha", stream_options={"include_usage": True})
    body = {"model": FAKE_BASE, "prompt": ["one two", "one two"], "n": 2, "max_tokens": 1}
    several = busy.http.post("/v1/completions", json=body)
    streamed = busy.client.predictions.list()[1]
    assert streamed["streamed"] and streamed["outcome"] == "ok" and streamed["output_tokens"] == 5
    record = one_of(busy, several)
    assert record["choices"] == 4 and record["output_tokens"] == 4
    assert record["prompt_tokens"] == several.json()["usage"]["prompt_tokens"] == 4
    assert (record["adapter"], record["model"], record["digest"], record["adapters"]) == (
        FAKE_BASE,
        FAKE_BASE,
        None,
        [],
    )


def test_embeddings_and_classifications_are_recorded(busy: Served) -> None:
    busy.engine.labels["alpha:1.0.0"] = ("bad", "good")
    vectors = busy.http.post("/v1/embeddings", json={"model": "alpha", "input": ["a b", "c"]})
    classes = busy.http.post("/v1/classify", json={"model": "alpha", "input": "a b"})
    embedded, classified = one_of(busy, vectors), one_of(busy, classes)
    assert (embedded["door"], embedded["prompt_tokens"], embedded["choices"]) == ("/v1/embeddings", 3, 2)
    assert embedded["answer_hash"] is None and embedded["prompt_hash"] is not None
    assert classified["answer_hash"] is not None and classified["outcome"] == "ok"


def test_a_task_is_one_request_however_many_inputs_it_has_and_says_whether_they_could_be_read(busy: Served) -> None:
    spec = {"adapter": "alpha", "output": {"type": "label", "choices": ["yes", "no"]}}
    task = {"apiVersion": API_VERSION, "kind": "Task", "metadata": {"name": "mood"}, "spec": spec}
    busy.client.tasks.set(task)
    busy.engine.answers |= {"good": "yes", "odd": "perhaps"}
    both = busy.http.post("/v1/tasks", json={"task": "mood", "inputs": ["good", "odd"]})
    bad = busy.http.post("/v1/tasks", json={"task": "mood", "text": "odd"})
    good = busy.http.post("/v1/tasks", json={"task": "mood", "text": "good"})
    told = [one_of(busy, answer) for answer in (both, bad, good)]
    assert [one["format_valid"] for one in told] == [False, False, True]
    assert [(one["outcome"], one["status"]) for one in told] == [("ok", 200), ("error", 422), ("ok", 200)]
    assert [one["choices"] for one in told] == [2, 1, 1] and told[0]["model"] == "alpha:1.0.0"
    assert told[0]["task"] == good.json()["graftwork"]["task"] and told[0]["adapter"] == "alpha"


def test_a_task_without_a_form_has_none_that_could_be_right(busy: Served) -> None:
    task = {"apiVersion": API_VERSION, "kind": "Task", "metadata": {"name": "short"}, "spec": {"adapter": "alpha"}}
    busy.client.tasks.set(task)
    told = one_of(busy, busy.http.post("/v1/tasks", json={"task": "short", "text": "x"}))
    assert (told["task"], told["format_valid"]) == ("short/1", None)
    busy.engine.failures["alpha:1.0.0"] = GenerationFailed("not finite")
    failed = one_of(busy, busy.http.post("/v1/tasks", json={"task": "short", "text": "x"}))
    assert (failed["task"], failed["outcome"]) == ("short/1", "error")  # also where nothing came of it


def test_what_was_refused_and_what_failed_is_recorded_apart(busy: Served) -> None:
    refused = busy.chat(model="nobody")
    busy.engine.failures["alpha:1.0.0"] = GenerationFailed("not finite")
    failed = busy.chat(model="alpha")
    busy.engine.fail_after = 1
    broken = busy.events(model="alpha")
    found = {record["request_id"]: record for record in busy.client.predictions.list()}
    assert len(found) == 3 and "error" in broken[-1]
    one, other = (found[answer.headers["x-graftwork-request"]] for answer in (refused, failed))
    assert (one["outcome"], one["status"], one["error"], one["asked"]) == ("refused", 404, "model_not_found", "nobody")
    assert one["adapter"] is one["arm"] is None
    assert (other["outcome"], other["status"], other["error"]) == ("error", 500, "generation_failed")
    [midway] = busy.client.predictions.list(outcome="error", limit=1)
    assert (midway["status"], midway["error"], midway["output_tokens"]) == (200, "generation_failed", 1)
    books = busy.app.state.services.books
    seen = books.records.observations("local", "alpha", since="2000")
    assert [one.outcome for one in seen] == ["error", "error"], "who was refused says nothing of a version"


def test_who_goes_away_is_recorded_as_aborted(busy: Served) -> None:
    busy.engine.pause_after = 1
    with busy.http.stream("POST", CHAT, json={"messages": HELLO, "model": "alpha", "stream": True}) as response:
        next(response.iter_bytes())
    record = one_of(busy, response)
    assert (record["outcome"], record["output_tokens"]) == ("aborted", 1)


def test_the_mean_logprob_is_there_where_it_was_asked_for_or_the_tenant_wants_it(busy: Served) -> None:
    assert one_of(busy, busy.chat(model="alpha"))["mean_logprob"] is None
    assert one_of(busy, busy.chat(model="alpha", logprobs=True))["mean_logprob"] == -0.5
    busy.client.predictions.set_recording(recording(logprobs=True))
    answer = busy.chat(model="alpha")
    assert one_of(busy, answer)["mean_logprob"] == -0.5
    assert answer.json()["choices"][0]["logprobs"] is None, "the caller did not ask"


def test_an_answer_is_explained_as_it_stood_when_it_was_decided(busy: Served) -> None:
    answer = busy.chat(model="alpha")
    busy.push("alpha:2.0.0", seed=1)
    busy.client.promote("alpha:2.0.0")
    found = busy.client.predictions.explain(answer.json()["id"])
    assert found["prediction"]["request_id"] == answer.headers["x-graftwork-request"]
    [history] = found["history"]
    assert [(one["alias"], one["version"], one["moved_by"]) for one in history["pointers"]] == [
        ("production", "1.0.0", "local")
    ]
    kinds = [event["kind"] for event in history["events"]]
    assert kinds == ["version.created", "version.promoted"], "and not what was done afterwards"
    assert history["events"][1]["payload"]["reason"] == "passed review"


def test_the_revision_of_a_route_that_decided_is_explained_as_it_was(busy: Served) -> None:
    route = {"apiVersion": API_VERSION, "kind": "Route", "metadata": {"name": "support"}}
    rule = {"name": "all", "targets": [{"reference": "alpha:1.0.0", "arm": "first"}]}
    busy.client.routes.set({**route, "spec": {"rules": [rule]}}, reason="opened")
    answer = busy.chat(model="support")
    busy.client.routes.set({**route, "spec": {"rules": [{**rule, "name": "other"}]}})
    found = busy.client.predictions.explain(answer.headers["x-graftwork-request"])
    record, [event] = found["prediction"], found["decided_by"]
    assert (record["route"], record["route_revision"], record["arm"]) == ("support", 1, "first")
    assert (event["kind"], event["payload"]["reason"]) == ("route.set", "opened")
    assert [one["adapter"] for one in found["history"]] == ["alpha"]


def test_a_rollout_that_decided_is_explained(busy: Served) -> None:
    busy.push("alpha:2.0.0", seed=1)
    busy.client.rollouts.start(document("alpha", canary(weight(50), hold())))
    answer = busy.chat(model="alpha")
    busy.client.rollouts.abort("alpha", reason="enough")
    found = busy.client.predictions.explain(answer.headers["x-graftwork-request"])
    kinds = [event["kind"] for event in found["decided_by"]]
    assert kinds[0] == "rollout.started" and "rollout.aborted" not in kinds
    assert found["prediction"]["rollout"] == "alpha/1" and found["prediction"]["arm"] in ("stable", "candidate")


def test_a_composition_is_explained_by_each_of_its_versions(busy: Served) -> None:
    busy.push("beta", seed=1)
    answer = busy.chat(adapters=[{"ref": "alpha", "scale": 0.5}, {"ref": "beta"}])
    found = busy.client.predictions.explain(answer.headers["x-graftwork-request"])
    assert found["prediction"]["adapter"] == "alpha+beta"
    assert [(one["adapter"], one["scale"]) for one in found["prediction"]["adapters"]] == [
        ("alpha", 0.5),
        ("beta", 1.0),
    ]
    assert [one["adapter"] for one in found["history"]] == ["alpha", "beta"]


def test_feedback_joins_late_and_twice_is_once(busy: Served) -> None:
    request_id = busy.chat(model="alpha").json()["id"]
    said = {"request_id": request_id, "name": "rating", "value": 1.0}
    first, again = busy.http.post("/v1/feedback", json=said), busy.http.post("/v1/feedback", json=said)
    assert (first.status_code, again.status_code) == (201, 200) and first.json() == again.json()
    busy.client.predictions.feedback(request_id, "rating", value=0.0)
    busy.client.predictions.feedback(request_id, "rating", value=1.0, source="judge")
    busy.client.predictions.feedback(request_id, "purchase", label="book")
    told = busy.client.predictions.explain(request_id)["feedback"]
    assert [(one["name"], one["source"], one["value"], one["label"]) for one in told] == [
        ("purchase", "user", None, "book"),
        ("rating", "judge", 1.0, None),
        ("rating", "user", 0.0, None),
    ]
    [seen] = busy.app.state.services.books.records.observations("local", "alpha", arm="production", since="2000")
    assert seen.feedback == {"rating": 0.5}


@pytest.mark.parametrize(
    ("said", "field"),
    [({"name": "x"}, None), ({"name": "a b", "value": 1}, "name"), ({"name": "x", "value": 1, "more": 1}, "more")],
)
def test_feedback_that_says_nothing_is_refused(busy: Served, said: dict[str, Any], field: str | None) -> None:
    answer = busy.http.post("/v1/feedback", json={"request_id": "0", **said})
    assert answer.status_code == 400 and answer.json()["error"]["param"] == field


def test_a_beginning_is_not_another_answers_while_the_one_that_is_meant_is_being_written(
    busy: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [uuid.UUID(f"b80c35ec{number:024}") for number in range(2)]
    for one in ids:
        with monkeypatch.context() as patch:
            patch.setattr(request_scope, "uuid", SimpleNamespace(uuid4=lambda one=one: one))
            assert busy.chat(model="alpha").headers["x-graftwork-request"] == one.hex
        if one is ids[0]:
            assert busy.http.get("/api/v1/predictions/b80c35ec").json()["prediction"]["request_id"] == one.hex
            busy.app.state.services.books.recorder._journal._pause_s = 3600.0
    answer = busy.http.get("/api/v1/predictions/b80c35ec")
    assert answer.status_code == 400 and "several requests begin with b80c35ec" in answer.text


def test_another_tenants_answer_is_as_unknown_as_none(busy: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    request_id = busy.chat(model="alpha", **SHARED).headers["x-graftwork-request"]
    monkeypatch.setattr(door_keeper, "LOCAL_ADMIN", Principal("other", "eve"))
    asked: list[Callable[[str], httpx.Response]] = [
        lambda one: busy.http.get(f"/api/v1/predictions/{one}"),
        lambda one: busy.http.post("/v1/feedback", json={"request_id": one, "name": "x", "value": 1}),
    ]
    for ask in asked:
        theirs, none = ask(request_id), ask("0" * 32)
        assert theirs.status_code == none.status_code == 404
        assert theirs.text.replace(request_id, "") == none.text.replace("0" * 32, "")
    assert busy.client.predictions.list() == busy.client.predictions.usage() == []
    assert busy.client.predictions.forget("ann") == 0
    monkeypatch.undo()
    assert len(busy.client.predictions.list(user="ann")) == 1


def test_a_user_is_forgotten_and_usage_stays(busy: Served) -> None:
    request_id = busy.chat(model="alpha", user="ann").headers["x-graftwork-request"]
    busy.client.predictions.feedback(request_id, "rating", value=1)
    busy.chat(model="alpha", user="bob")
    assert busy.client.predictions.forget("ann") == 1 and busy.client.predictions.forget("ann") == 0
    with pytest.raises(NotFound):
        busy.client.predictions.explain(request_id)
    assert [record["user_id"] for record in busy.client.predictions.list()] == ["bob"]
    assert busy.client.predictions.usage()[0]["requests"] == 2
    [event] = busy.client.events.list(kind="predictions.forgotten")
    assert event["payload"]["records"] == 1 and "ann" not in str(event["payload"]["user"])


def test_usage_is_told_by_day_and_adapter_as_json_and_csv(busy: Served) -> None:
    busy.chat(model="alpha", max_tokens=2)
    busy.chat(model="alpha:1.0.0", max_tokens=1)
    busy.chat()
    busy.chat(model="nobody")
    base, alpha = sorted(busy.client.predictions.usage(), key=lambda row: row["adapter"] == "alpha")
    assert (alpha["requests"], alpha["errors"], alpha["prompt_tokens"], alpha["output_tokens"]) == (2, 0, 6, 3)
    assert base["adapter"] == FAKE_BASE and base["requests"] == 1 and base["seconds"] > 0
    answer = busy.http.get("/api/v1/usage", params={"format": "csv", "page_size": 1})
    assert answer.headers["content-type"].startswith("text/csv")
    more = {"page_token": answer.headers["x-next-page-token"], "format": "csv"}
    rest = busy.http.get("/api/v1/usage", params=more)
    rows = [row for page in (answer, rest) for row in csv.DictReader(io.StringIO(page.text))]
    assert [row["adapter"] for row in rows] == ["alpha", FAKE_BASE] and rows[0]["output_tokens"] == "3"
    assert busy.client.predictions.usage(adapter="alpha", since=alpha["day"]) == [alpha]
    assert busy.client.predictions.usage(until=alpha["day"]) == []


def test_records_come_page_by_page_and_by_filter(busy: Served) -> None:
    for number in range(5):
        busy.chat(model="alpha" if number % 2 else None, user=f"u{number}")
    newest = busy.client.predictions.list()
    assert [record["user_id"] for record in newest] == ["u4", "u3", "u2", "u1", "u0"]
    first = busy.http.get("/api/v1/predictions", params={"page_size": 2}).json()
    rest = busy.http.get("/api/v1/predictions", params={"page_token": first["next_page_token"]}).json()
    assert first["predictions"] + rest["predictions"] == newest and rest["next_page_token"] is None
    assert [one["user_id"] for one in busy.client.predictions.list(adapter="alpha")] == ["u3", "u1"]
    assert busy.client.predictions.list(route="alpha", arm="production", since=newest[1]["at"]) == newest[1:2]
    assert busy.client.predictions.list(until=newest[-1]["at"]) == []
    wrong = busy.http.get("/api/v1/predictions", params={"page_token": "x"})
    assert wrong.status_code == 400 and wrong.json()["field"] == "page_token"


def test_records_are_switched_off_and_usage_is_counted_still(busy: Served) -> None:
    busy.client.predictions.set_recording(recording(mode="off"))
    answer = busy.chat(model="alpha")
    assert answer.status_code == 200 and busy.client.predictions.list() == []
    assert busy.client.predictions.usage()[0]["requests"] == 1
    [event] = busy.client.events.list(kind="recording.set")
    assert event["payload"]["to"]["mode"] == "off" and event["payload"]["from"]["mode"] is None


def test_texts_are_not_kept_without_keys_to_seal_them(busy: Served) -> None:
    with pytest.raises(Refused, match="keyring"):
        busy.client.predictions.set_recording(recording(keepText=True))
    assert busy.client.predictions.recording()["spec"]["keepText"] is False


@pytest.fixture
def sealing(settings: Settings, tmp_path: Path) -> Iterator[Served]:
    """A server with a keyring."""
    keyring = tmp_path / "keyring.json"
    keyring.write_text('{"current": "k", "keys": {"k": "' + "A" * 43 + '="}}')
    with serving(settings.model_copy(update={"artifacts_keyring": keyring}), tmp_path) as made:
        yield made


def test_texts_are_kept_sealed_where_the_tenant_wants_it(sealing: Served) -> None:
    before = sealing.chat().headers["x-graftwork-request"]
    sealing.client.predictions.set_recording(recording(keepText=True))
    answer = sealing.chat()
    said = sealing.client.predictions.explain(answer.headers["x-graftwork-request"])["text"]
    assert said == {"prompt": [{"messages": HELLO}], "answer": [answer.json()["choices"][0]["message"]["content"]]}
    assert sealing.client.predictions.explain(before)["text"] is None
    services = sealing.app.state.services
    with services.registry._database.reading() as tx:
        assert "hello" not in str(tx.execute(text("SELECT * FROM prediction_texts")).all())


def test_what_was_said_is_for_those_who_may_see_it_and_the_record_for_all(sealing: Served) -> None:
    sealing.client.predictions.set_recording(recording(keepText=True))
    request_id = sealing.chat().headers["x-graftwork-request"]

    def explained(*scopes: str, role: str = "admin") -> dict[str, Any]:
        key = sealing.client.keys.create(role=role, scopes=list(scopes))["key"]
        path, headers = f"/api/v1/predictions/{request_id}", {"authorization": f"Bearer {key}"}
        found: dict[str, Any] = sealing.http.get(path, headers=headers).json()
        return found

    assert explained("read", "texts")["text"]["prompt"] == [{"messages": HELLO}]
    for scopes, role in ((("read", "manage"), "admin"), (("read", "texts"), "deployer"), (("read",), "viewer")):
        found = explained(*scopes, role=role)
        assert (found["text"], found["text_withheld"]) == (None, True)
        assert found["prediction"]["request_id"] == request_id
    assert not explained("read", "texts")["text_withheld"]


# Strict


@pytest.fixture
def strict(settings: Settings, tmp_path: Path) -> Iterator[Served]:
    with serving(settings.model_copy(update={"record_mode": "strict"}), tmp_path) as made:
        yield made


@pytest.fixture
def away(monkeypatch: pytest.MonkeyPatch) -> None:
    """The database takes no records."""

    def refuse(*_: object) -> None:
        raise Unavailable("no disk")

    monkeypatch.setattr(Entries, "write", refuse)


def test_strict_records_are_there_before_the_end_of_the_answer(strict: Served) -> None:
    database = strict.app.state.services.registry._database
    seen: list[tuple[bool, int]] = []
    with strict.http.stream("POST", CHAT, json={"messages": HELLO, "stream": True}) as response:
        for chunk in response.iter_bytes():
            with database.reading() as tx:
                rows = tx.execute(text("SELECT count(*) FROM predictions")).scalar_one()
            seen.append((b'"finish_reason": "stop"' in chunk or b"[DONE]" in chunk, rows))
    assert {rows for ends, rows in seen if not ends} == {0}
    assert {rows for ends, rows in seen if ends} == {1}


def test_without_its_record_a_strict_answer_fails(strict: Served, away: None) -> None:
    answer = strict.chat()
    assert answer.status_code == 503 and "record" in answer.json()["error"]["message"]
    assert "says" not in answer.text and answer.headers["x-graftwork-request"]
    *_, last = strict.events()
    assert "record" in last["error"]["message"]
    assert strict.chat(model="nobody").status_code == 404, "an error is one already"


def test_without_its_record_a_relaxed_answer_is_given_and_the_loss_is_counted(
    settings: Settings, tmp_path: Path, away: None
) -> None:
    engine = FakeEngine()
    with serving(settings, tmp_path, engine) as made:
        assert made.chat().status_code == 200
        services = made.app.state.services
        services.books.recorder.close()
        page = made.http.get("/metrics").text
    assert 'graftwork_prediction_records_total{outcome="dropped"} 1.0' in page

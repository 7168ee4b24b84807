"""Copies of requests: they change nothing for who asked, whatever becomes of them, and say how two versions differ."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from sqlalchemy import update

from graftwork.access.tenants import LOCAL
from graftwork.client import Client
from graftwork.db.schema import shadow_diffs
from graftwork.errors import GenerationFailed, GraftworkError, NotFound, Refused, Unavailable
from graftwork.gateway import shadowing
from graftwork.gateway.app import build_app
from graftwork.gateway.services import Services
from graftwork.protocol.resource import API_VERSION
from graftwork.settings import Settings
from graftwork.testing import FakeEngine, write_lora
from graftwork.traffic.mirror import mirrored_at
from support.on_socket import on_socket
from support.rollouts import canary, document, hold, weight
from support.served import CHAT, HELLO
from support.waiting import eventually

ALL = {"shadow": {"mirror": 100}}
ONE, TWO = "support:1.0.0", "support:2.0.0"


@dataclass(frozen=True)
class Mirrored:
    """A server behind a socket, on which the copies of all requests of one version go to another."""

    app: FastAPI
    engine: FakeEngine
    client: Client
    http: httpx.Client

    @property
    def services(self) -> Services:
        found: Services = self.app.state.services
        return found

    def ask(self, path: str = CHAT, **fields: Any) -> httpx.Response:
        body = {"model": "support", **({"messages": HELLO} if path == CHAT else {}), **fields}
        return self.http.post(path, json=body)

    def ends(self) -> dict[str, float]:
        """How many copies ended how, by the metrics."""
        found = re.findall(
            r'^graftwork_shadow_copies_total\{outcome="(\w+)"\} (\S+)', self.http.get("/metrics").text, re.MULTILINE
        )
        return {name: float(count) for name, count in found if float(count)}

    def ended(self, ends: dict[str, float]) -> bool:
        return self.ends() == ends

    def diffs(self, count: int) -> list[dict[str, Any]]:
        """As soon as there are so many."""
        eventually(lambda: len(self.client.shadows.list()) >= count)
        return self.client.shadows.list()

    def copies(self) -> list[Any]:
        return [one for one in self.engine.requests if not one.counts]

    def start(self, strategy: dict[str, Any]) -> None:
        self.client.rollouts.start(document("support", strategy))
        eventually(lambda: self.client.rollouts.show("support")["held"] == "step")


@pytest.fixture
def start(settings: Settings, tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Starts a server with other settings."""

    @contextmanager
    def started(strategy: dict[str, Any] = ALL, **options: Any) -> Iterator[Mirrored]:
        engine = FakeEngine()
        app = build_app(settings.model_copy(update=options), engine=engine, outline_of=lambda: engine.outline)
        with on_socket(app) as url, Client(url) as client, httpx.Client(base_url=url, timeout=30) as http:
            made = Mirrored(app, engine, client, http)
            for number in (1, 2):
                folder = write_lora(tmp_path / f"lora-{number}", engine.outline, seed=number)
                client.push(folder, f"support:{number}.0.0")
            client.promote(ONE)
            made.start(strategy)
            yield made
            made.services.shadowing.check()

    yield started


@pytest.fixture
def mirrored(start: Callable[..., Any]) -> Iterator[Mirrored]:
    with start() as made:
        yield made


def test_a_copy_is_compared_with_the_answer(mirrored: Mirrored) -> None:
    answer = mirrored.ask(temperature=0, user="ann")
    assert answer.json()["model"] == ONE and answer.json()["graftwork"]["arm"] == "stable"
    (diff,) = mirrored.diffs(1)
    request_id = answer.headers["x-graftwork-request"]
    assert (diff["request_id"], diff["door"], diff["user_id"]) == (request_id, CHAT, "ann")
    assert (diff["route"], diff["rollout"], diff["arm"]) == ("support", "support/1", "candidate")
    assert (diff["model"], diff["shadow_model"]) == (ONE, TWO)
    assert diff["digest"] == answer.headers["x-graftwork-digest"] != diff["shadow_digest"]
    assert (diff["outcome"], diff["error"], diff["sampled"]) == ("ok", None, False)
    assert (diff["exact"], diff["normalised"], diff["length_ratio"]) == (False, False, 1.0)
    assert 0.9 < diff["similarity"] < 1
    assert (diff["output_tokens"], diff["shadow_output_tokens"]) == (5, 5)
    assert diff["finish_reason"] == diff["shadow_finish_reason"] == "stop"
    assert 0 < diff["latency_s"] < 10 and 0 < diff["shadow_latency_s"] < 10
    assert diff["answer_hash"] != diff["shadow_hash"]
    assert diff["answer_hash"] == mirrored.client.predictions.explain(request_id)["prediction"]["answer_hash"]
    explained = mirrored.client.predictions.explain(request_id)
    assert explained["shadows"] == [{**diff, "text": None}]
    assert mirrored.client.rollouts.show("support")["mirror"] == 100


def test_which_requests_are_copied_follows_from_their_ids(start: Callable[..., Any]) -> None:
    with start({"shadow": {"mirror": 20}}) as made:
        ids = [made.ask(max_tokens=1).headers["x-graftwork-request"] for _ in range(60)]
        chosen = {one for one in ids if mirrored_at(LOCAL, "support", one) < 0.2}
        assert {one["request_id"] for one in made.diffs(len(chosen))} == chosen
        eventually(lambda: made.ends() == {"compared": len(chosen)})


def test_every_door_that_generates_is_copied_with_the_same_words_and_sampling(mirrored: Mirrored) -> None:
    said: dict[str, Any] = {"temperature": 0.5, "seed": 7, "max_tokens": 3, "n": 2, "logprobs": True}
    assert mirrored.ask(**said).status_code == 200
    mirrored.diffs(1)
    assert mirrored.ask(stream=True).text.endswith("[DONE]\n\n")
    mirrored.diffs(2)
    assert mirrored.ask("/v1/completions", prompt=["one two", "three"]).status_code == 200
    task = {"apiVersion": API_VERSION, "kind": "Task", "metadata": {"name": "mood"}, "spec": {"adapter": "support"}}
    mirrored.diffs(3)
    mirrored.client.tasks.set(task)
    assert mirrored.http.post("/v1/tasks", json={"task": "mood", "inputs": ["a", "b"]}).status_code == 200
    diffs = mirrored.diffs(4)
    assert [one["door"] for one in diffs] == ["/v1/tasks", "/v1/completions", CHAT, CHAT]
    assert [one["outcome"] for one in diffs] == ["ok"] * 4
    assert diffs[3]["sampled"] and diffs[3]["mean_logprob"] == diffs[3]["shadow_mean_logprob"] == -0.5
    copies = mirrored.copies()
    answers = [one for one in mirrored.engine.requests if one.counts]
    assert [one.prompt for one in copies] == [one.prompt for one in answers]
    assert [one.params for one in copies] == [one.params for one in answers]
    assert [one.adapter.label for one in copies] == [TWO] * 7
    assert {(one.caller.tenant, one.caller.weight) for one in copies} == {("local/shadow", 0.01)}
    assert mirrored.http.post("/v1/embeddings", json={"model": "support", "input": "a"}).status_code == 200
    eventually(lambda: mirrored.ends() == {"compared": 4, "skipped": 1})


def test_who_asks_is_not_billed_for_copies_and_never_learns_of_them(mirrored: Mirrored) -> None:
    mirrored.http.patch("/api/v1/tenants/local", json={"quotas": {"tokens_per_minute": 60, "concurrent": 1}})
    answers = [mirrored.ask(temperature=0) for _ in range(2)]
    mirrored.diffs(2)
    answers.append(mirrored.ask(temperature=0))
    mirrored.diffs(3)
    left = int(answers[-1].headers["x-ratelimit-remaining-tokens"])
    assert left >= 60 - 3 * (3 + 5), "three answers, and no copies"
    assert all("shadow" not in str(answer.headers) + answer.text and TWO not in answer.text for answer in answers)
    usage = mirrored.client.predictions.usage()
    assert [(row["adapter"], row["requests"], row["output_tokens"]) for row in usage] == [("support", 3, 15)]
    assert {row["model"] for row in mirrored.client.predictions.list()} == {ONE}
    metrics = mirrored.http.get("/metrics").text
    assert f'graftwork_generations_total{{model="{ONE}",outcome="stop"}} 3.0' in metrics
    assert f'model="{TWO}"' not in metrics
    assert "graftwork_generations_in_progress 0.0" in metrics


def test_a_slow_a_failing_and_a_hanging_version_change_nothing_for_who_asks(start: Callable[..., Any]) -> None:
    def timed(count: int = 40) -> float:
        """The median of so many requests, in seconds."""
        times = []
        for _ in range(count):
            began = time.perf_counter()
            answer = made.ask(temperature=0)
            times.append(time.perf_counter() - began)
            assert answer.status_code == 200 and answer.json()["usage"]["completion_tokens"] == 5
            assert answer.json()["choices"][0]["message"]["content"] == f"{ONE} says: hello big world"
        return sorted(times)[count // 2]

    with start(shadow_timeout_s=0.2, shadow_queue=4) as made:
        made.engine.failures[TWO] = GenerationFailed("NaN in a row")
        failing = timed()
        eventually(lambda: made.ends().get("failed", 0) >= 1)
        assert {one["error"] for one in made.diffs(1)} == {"generation_failed"}
        made.engine.failures.clear()
        made.engine.delays[TWO] = 0.02
        slow = timed()
        eventually(lambda: made.ends().get("compared", 0) >= 1)
        made.engine.delays.clear()
        made.engine.pauses_of[TWO] = 2
        hanging = timed()
        eventually(lambda: made.ends().get("timed_out", 0) >= 1)
        assert max(failing, slow, hanging) < 0.1
        eventually(lambda: made.services.telemetry.shadow_waiting._value.get() == 0)
        ends = made.ends()
        assert ends["dropped"] > 0, "more than four waited behind a version that hangs"
        eventually(lambda: sum(made.ends().values()) == 120)
        (pair,) = made.client.shadows.report("support")
        assert pair["copies"] == sum(count for name, count in made.ends().items() if name != "dropped")
        assert (pair["errors"], pair["timeouts"]) == (made.ends()["failed"], made.ends()["timed_out"])
        assert made.client.predictions.usage()[0]["requests"] == 120
        assert made.client.predictions.usage()[0]["errors"] == 0


def test_a_copy_that_only_waited_for_its_turn_says_nothing_of_its_version(start: Callable[..., Any]) -> None:
    with start(shadow_timeout_s=0.1) as made:
        made.engine.behind.add(TWO)
        for words in (0, 1):  # before it has begun, and put back after a word
            made.engine.pauses_of[TWO] = words
            made.ask(n=2)
            eventually(partial(made.ended, {"no_turn": words + 1}))
        assert made.client.shadows.list() == []


@pytest.mark.parametrize("words", [0, 1])
def test_a_copy_that_has_its_turn_and_hangs_has_timed_out(start: Callable[..., Any], words: int) -> None:
    with start(shadow_timeout_s=0.1) as made:
        made.engine.pauses_of[TWO] = words
        made.ask()
        (diff,) = made.diffs(1)
        assert (diff["outcome"], diff["error"], diff["shadow_output_tokens"]) == ("timeout", "timed_out", words)
        assert made.ends() == {"timed_out": 1}


def test_requests_that_may_take_no_longer_hold_for_copies_too(start: Callable[..., Any]) -> None:
    with start(request_timeout_s=0.1) as made:
        made.engine.pauses_of[TWO] = 0
        made.engine.behind.add(TWO)
        made.ask()
        eventually(lambda: made.ends() == {"no_turn": 1})


@pytest.mark.parametrize(("why", "end"), [(None, "skipped"), (Refused("It cannot be served."), "failed")])
def test_a_version_that_left_memory_while_its_copy_waited_is_told_as_at_the_beginning(
    start: Callable[..., Any], why: Refused | None, end: str
) -> None:
    with start(shadow_timeout_s=0.3) as made:
        made.engine.pauses_of[TWO] = 0
        made.engine.behind.add(TWO)
        made.ask()
        eventually(lambda: made.copies())
        made.engine.failures[TWO] = why or Unavailable("Not now.")
        del made.engine._resident[made.client.show(TWO)["digest"]]
        with pytest.raises(GraftworkError):
            made.client.load(TWO)
        eventually(lambda: made.ends() == {end: 1})


def test_a_version_that_cannot_be_loaded_has_failed(mirrored: Mirrored) -> None:
    digest = mirrored.client.show(TWO)["digest"]
    mirrored.engine.failures[TWO] = Refused(f"The adapter {TWO} cannot be served.")
    del mirrored.engine._resident[digest]
    with pytest.raises(Refused):
        mirrored.client.load(TWO)
    mirrored.ask()
    (diff,) = mirrored.diffs(1)
    assert (diff["outcome"], diff["error"]) == ("error", "refused")
    assert mirrored.ends() == {"failed": 1} and mirrored.copies() == []


def test_what_nobody_answered_whole_is_not_compared(mirrored: Mirrored) -> None:
    mirrored.engine.pause_after = 2
    with mirrored.http.stream("POST", CHAT, json={"model": "support", "messages": HELLO, "stream": True}) as answer:
        next(answer.iter_lines())
    eventually(lambda: mirrored.ends() == {"skipped": 1})
    mirrored.engine.pause_after = None
    mirrored.engine.failures[ONE] = GenerationFailed("NaN in a row")
    assert mirrored.ask().status_code == 500
    eventually(lambda: mirrored.ends() == {"skipped": 2})
    assert mirrored.copies() == [] and mirrored.client.shadows.list() == []
    assert mirrored.engine.aborted


def test_what_came_in_chunks_counts_too_where_copies_wait(mirrored: Mirrored, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shadowing, "MOST_BYTES", 10_000)
    body = json.dumps({"model": "support", "messages": HELLO, "padding": "x" * 20_000}).encode()
    chunks = (body[at : at + 4096] for at in range(0, len(body), 4096))
    answer = mirrored.http.post(CHAT, content=chunks, headers={"content-type": "application/json"})
    assert answer.status_code == 200 and "content-length" not in answer.request.headers
    eventually(lambda: mirrored.ends() == {"dropped": 1})
    assert mirrored.copies() == []


def test_what_is_not_in_memory_is_not_loaded_for_a_copy(mirrored: Mirrored) -> None:
    digest = mirrored.client.show(TWO)["digest"]
    mirrored.engine._resident.pop(digest)
    loaded = len(mirrored.engine.loaded)
    mirrored.engine.load = None  # type: ignore[assignment,method-assign]
    mirrored.ask()
    eventually(lambda: mirrored.ends() == {"skipped": 1})
    assert len(mirrored.engine.loaded) == loaded and mirrored.copies() == []


def test_copies_wait_until_nobody_is_answered_but_not_for_ever(
    mirrored: Mirrored, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shadowing, "PATIENCE_S", 3600.0)
    mirrored.engine.pause_after = 4  # answers of five words hang at their end
    body = {"model": "fake-base", "messages": HELLO, "stream": True}
    with mirrored.http.stream("POST", CHAT, json=body) as busy:
        lines = busy.iter_lines()  # kept, or the connection would be closed
        next(lines)
        mirrored.ask(max_tokens=2)
        time.sleep(0.1)
        assert mirrored.copies() == [], "somebody is being answered"
        monkeypatch.setattr(shadowing, "PATIENCE_S", 0.0)
        mirrored.diffs(1)
        assert mirrored.engine.stats().running == 1


def test_copies_run_beside_callers_a_small_part_of_the_time_only(
    mirrored: Mirrored, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shadowing, "PATIENCE_S", 0.0)
    monkeypatch.setattr(shadowing, "QUIET_S", 3600.0)
    mirrored.engine.delays[TWO] = 0.02
    began = time.perf_counter()
    for _ in range(8):
        mirrored.ask()
    mirrored.diffs(3)
    took = time.perf_counter() - began
    ran = sum(one["shadow_latency_s"] for one in mirrored.client.shadows.list()[-3:])
    assert ran >= 0.3 and took > 2 * (ran / 3) / shadowing.BESIDE, "two rests lie between three copies"


def test_only_what_the_stable_version_answers_by_the_route_is_copied(start: Callable[..., Any]) -> None:
    with start(canary({"setMirror": 100}, weight(50), hold())) as made:
        users = [f"user-{number}" for number in range(20)]
        answered = [made.ask(user=user).json()["model"] for user in users]
        assert set(answered) == {ONE, TWO}
        stable = answered.count(ONE)
        assert {one["model"] for one in made.diffs(stable)} == {ONE}
        for explicit in (ONE, TWO, "fake-base"):
            assert made.ask(model=explicit).status_code == 200
        assert made.ask(adapter_id=ONE).status_code == 200
        made.client.rollouts.abort("support")
        assert made.ask().status_code == 200
        assert sum(made.ends().values()) == len(made.client.shadows.list()) == stable


def test_what_waits_when_the_server_ends_is_dropped_and_counted(start: Callable[..., Any]) -> None:
    with start() as made:
        made.engine.delays[TWO] = math.inf
        for _ in range(3):
            made.ask()
        telemetry = made.services.telemetry
    assert telemetry.shadow_copies.labels("dropped")._value.get() == 3
    assert telemetry.shadow_waiting._value.get() == 0


def test_reports_lists_and_pages(mirrored: Mirrored) -> None:
    mirrored.engine.answers["same"] = "the very same"
    for number in range(4):
        text = "same" if number % 2 else "hello"
        mirrored.ask(messages=[{"role": "user", "content": text}], temperature=0)
    mirrored.diffs(4)
    (pair,) = mirrored.client.shadows.report("support")
    assert (pair["model"], pair["shadow_model"], pair["copies"], pair["compared"]) == (ONE, TWO, 4, 4)
    assert (pair["exact"]["count"], pair["exact"]["of"], pair["exact"]["rate"]) == (2, 4, 0.5)
    assert 0 < pair["exact"]["low"] < 0.5 < pair["exact"]["high"] < 1
    assert pair["similarity"]["p50"] < 1 and pair["rollouts"] == ["support/1"]
    assert len(pair["worst"]) == 2 and pair["finish_reasons"] == {"answer": {"stop": 4}, "shadow": {"stop": 4}}
    assert mirrored.client.shadows.report("support", rollout="support/2") == []
    for ask in (mirrored.client.shadows.report, lambda route: mirrored.client.shadows.list(route=route)):
        with pytest.raises(NotFound, match="no route other"):
            ask("other")
    assert mirrored.client.shadows.report("support", since=pair["last"])[0]["copies"] == 1
    assert len(mirrored.client.shadows.list(exact="false")) == 2 and len(mirrored.client.shadows.list(limit=3)) == 3
    page = mirrored.http.get("/api/v1/shadows", params={"page_size": 3}).json()
    rest = mirrored.http.get("/api/v1/shadows", params={"page_token": page["next_page_token"]}).json()
    assert page["shadows"] + rest["shadows"] == mirrored.client.shadows.list() and not rest["next_page_token"]
    for wrong in ({"page_token": "odd"}, {"since": "odd"}, {"outcome": "odd"}):
        assert mirrored.http.get("/api/v1/shadows", params=wrong).status_code == 400
    assert mirrored.http.get("/api/v1/shadows/report").status_code == 400
    assert mirrored.http.get("/api/v1/tenants/acme/shadows").status_code == 404


def test_a_route_that_was_removed_is_known_while_copies_of_it_are_left(mirrored: Mirrored) -> None:
    mirrored.ask()
    mirrored.diffs(1)
    with mirrored.services.registry._database.transaction() as tx:
        tx.execute(update(shadow_diffs).values(route="gone"))
    assert len(mirrored.client.shadows.list(route="gone")) == 1
    assert mirrored.client.shadows.list(route="gone", outcome="timeout") == []
    assert mirrored.client.shadows.report("gone", rollout="gone/7") == []
    for outcome in (None, "timeout"):
        with pytest.raises(NotFound, match="no route never"):
            mirrored.client.shadows.list(route="never", outcome=outcome)


def test_texts_are_kept_by_the_tenants_rule_and_go_with_their_user(start: Callable[..., Any], tmp_path: Path) -> None:
    keyring = tmp_path / "keyring.json"
    keyring.write_text('{"current": "k", "keys": {"k": "' + "A" * 43 + '="}}')
    with start(artifacts_keyring=keyring) as made:
        spec = {"apiVersion": API_VERSION, "kind": "Recording", "spec": {"keepText": True}}
        made.client.predictions.set_recording(spec)
        answer = made.ask(user="ann")
        made.ask(user="bob")
        made.diffs(2)
        (said,) = made.client.predictions.explain(answer.headers["x-graftwork-request"])["shadows"]
        assert said["text"] == [f"{TWO} says: hello big world"]
        assert made.client.predictions.forget("ann") == 1
        assert [one["user_id"] for one in made.client.shadows.list()] == ["bob"]
        with pytest.raises(NotFound):
            made.client.predictions.explain(answer.headers["x-graftwork-request"])
        made.engine.delays[TWO] = 0.05
        made.ask(user="ann")
        eventually(lambda: len(made.copies()) == 3)
        assert made.client.predictions.forget("ann") == 1, "while its copy is on its way"
        eventually(lambda: made.ends().get("dropped", 0) == 1)
        assert [one["user_id"] for one in made.client.shadows.list()] == ["bob"]
        made.client.predictions.set_recording({**spec, "spec": {"mode": "off"}})
        made.ask(user="bob")
        eventually(lambda: made.ends().get("skipped", 0) == 1)
        assert json.dumps(made.client.shadows.list()).count(LOCAL) == 0

"""Traffic over whole processes: gateways of one PostgreSQL, each a `graftwork serve`, asked all the time."""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from e2e.conftest import environment, server
from graftwork.client import Client
from graftwork.errors import Unauthenticated
from graftwork.testing import write_lora
from support.analysis import template
from support.fixtures import EXAMPLES, Tiny
from support.load import Load
from support.postgresql import PostgreSQLServer
from support.rollouts import canary, document, hold, weight
from support.served import CHAT
from support.waiting import eventually

if TYPE_CHECKING:
    from e2e.conftest import Running

pytestmark = [pytest.mark.e2e, pytest.mark.alone]

#: Longest until a change on one gateway counts on the other, in seconds; benchmarks/gateway.py has how long it takes.
BOUND_S = 3.0
ADMIN: dict[str, Any] = {"role": "admin", "scopes": ["inference", "read", "manage"]}
PROMPT = [{"role": "user", "content": "Hello there, who are you?"}]


@dataclass(frozen=True)
class Gateways:
    """Two of one database, behind keys, and an administrator's key."""

    urls: Sequence[str]
    processes: Sequence[subprocess.Popen[str]]
    key: str
    home: Path
    base: Path | str
    settings: Mapping[str, str]

    def client(self, place: int = 0) -> Client:
        return Client(self.urls[place], api_key=self.key)

    def http(self, place: int = 0, key: str | None = None) -> httpx.Client:
        told = {"authorization": f"Bearer {key or self.key}"}
        return httpx.Client(base_url=self.urls[place], headers=told, timeout=60)

    def load(self, bodies: Sequence[Mapping[str, Any]], **more: Any) -> Load:
        return Load(self.urls, key=self.key, bodies=bodies, **more)


@contextmanager
def gateways(url: str, home: Path, base: Path | str, **settings: str) -> Iterator[Gateways]:
    """Records are there before the answers, so that each can be explained whoever is killed."""
    settings = {"GRAFTWORK_DATABASE_URL": url, "GRAFTWORK_RECORD_MODE": "strict", **settings}
    home.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack, ThreadPoolExecutor(2) as together:
        starting = [server(home, Path(base), home / f"{number}.log", **settings) for number in range(2)]
        started = [*together.map(stack.enter_context, starting)]
        urls, processes = zip(*started, strict=True)
        with Client(urls[0]) as anybody:
            key: str = anybody.keys.create(**ADMIN)["key"]
        yield Gateways(urls, processes, key, home, base, settings)


@pytest.fixture(scope="module")
def pair(
    running: Running, postgresql: PostgreSQLServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Gateways]:
    """On the tiny base, with three versions of one adapter, the first in production."""
    folder = tmp_path_factory.mktemp("traffic")
    with postgresql.database() as url, gateways(url, folder / "home", running.base) as made:
        with made.client() as client:
            for number in (1, 2, 3):
                lora = write_lora(folder / f"lora-{number}", running.outline, seed=number)
                client.push(lora, f"tone:{number}.0.0")
            client.promote("tone:1.0.0")
        yield made


@pytest.fixture(autouse=True)
def as_it_was(request: pytest.FixtureRequest) -> Iterator[None]:
    """Each test finds the first version in production, and nothing that runs."""
    yield
    if "pair" in request.fixturenames:
        made: Gateways = request.getfixturevalue("pair")
        with made.client() as client:
            client.promote("tone:1.0.0")


def bodies(model: str = "tone", sessions: int = 5000) -> list[dict[str, Any]]:
    """The same question in so many conversations: who has one key is told apart by these."""
    said = {"model": model, "messages": PROMPT, "max_tokens": 8, "temperature": 0}
    return [{**said, "session_id": f"session-{number}"} for number in range(sessions)]


def graftwork(made: Gateways, *arguments: str) -> dict[str, Any]:
    """What a command says as JSON."""
    told = environment(made.home, Path(made.base)) | {"GRAFTWORK_URL": made.urls[1], "GRAFTWORK_API_KEY": made.key}
    command = [sys.executable, "-m", "graftwork.cli", *arguments, "--output", "json"]
    done = subprocess.run(command, env=told, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def model_of(answer: httpx.Response) -> str:
    """Which version answered. Nothing fails, and head and body say the same."""
    assert answer.status_code == 200, answer.text
    said = answer.json()
    assert said["graftwork"]["version"] == answer.headers["x-graftwork-version"]
    assert said["model"].endswith(":" + said["graftwork"]["version"])
    model: str = said["model"]
    return model


def check_unmixed(made: Gateways, load: Load, versions: Sequence[str]) -> None:
    """Each answer is word for word what the version that signs it says when it is asked by name."""
    alone: dict[tuple[str, str], str] = {}
    with made.http() as http:
        for answer in load.answers:
            asked = json.loads(answer.request.content)
            about = model_of(answer), asked["messages"][-1]["content"]
            if about not in alone:
                again = http.post(CHAT, json={**asked, "model": about[0]})
                alone[about] = again.json()["choices"][0]["message"]["content"]
            assert answer.json()["choices"][0]["message"]["content"] == alone[about], about
    assert {model for model, _ in alone} == set(versions)


def check_explained(made: Gateways, load: Load) -> None:
    """Every answer has a record that says what its headers said; `graftwork explain` tells what had decided."""
    with made.client() as client:
        records = {one["request_id"]: one for one in client.predictions.list()}
    last: dict[tuple[str, str], str] = {}
    for answer in load.answers:
        record = records[answer.headers["x-graftwork-request"]]
        told = answer.headers["x-graftwork-arm"], answer.headers["x-graftwork-digest"]
        assert (record["arm"], record["digest"], record["outcome"]) == (*told, "ok")
        last[told] = record["request_id"]
    with made.client() as client:
        explained = [client.predictions.explain(one) for one in last.values()]
    explained[-1] = graftwork(made, "explain", [*last.values()][-1])
    for (arm, digest), found in zip(last, explained, strict=True):
        assert (found["prediction"]["arm"], found["prediction"]["digest"]) == (arm, digest)
        assert found["history"], "how the version came to where it was"
        kinds = [one["kind"] for one in found["decided_by"]]
        assert (found["prediction"]["rollout"] is not None) == any(one.startswith("rollout.") for one in kinds)


def settled(made: Gateways, load: Load, body: Mapping[str, Any], model: str) -> int:
    """Return when each gateway has that version answer so; how many of the load's answers were asked for before."""
    for place in range(len(made.urls)):
        with made.http(place) as http:
            eventually(lambda: http.post(CHAT, json=body).json().get("model") == model, BOUND_S)
    return len(load.answers) + 4


def test_a_key_counts_on_every_gateway_from_its_making_to_its_end(pair: Gateways) -> None:
    with Client(pair.urls[1]) as nobody, pytest.raises(Unauthenticated):
        nobody.adapters()
    with pair.client() as client:
        client.tenants.create("acme")
        made = client.keys.create(tenant="acme", **ADMIN)
    with pair.http(1, made["key"]) as other:
        eventually(lambda: other.get("/api/v1/whoami").status_code == 200, BOUND_S)
        assert other.get("/api/v1/whoami").json()["tenant"] == "acme"
        assert other.post(CHAT, json={"model": "tone", "messages": PROMPT}).status_code == 404, "it is another's"
        with pair.client() as client:
            client.keys.revoke(made["id"], tenant="acme")
        eventually(lambda: other.get("/api/v1/whoami").status_code == 401, BOUND_S)
        assert other.post(CHAT, json={"model": "tone", "messages": PROMPT}).status_code == 401


def test_a_route_set_on_one_gateway_decides_on_the_other(pair: Gateways) -> None:
    route = {"apiVersion": "adapters.graftwork.dev/v1alpha1", "kind": "Route", "metadata": {"name": "desk"}}
    half = [{"reference": f"tone:{number}.0.0", "weight": 1, "arm": f"arm-{number}"} for number in (2, 3)]
    french = {"name": "french", "matches": [{"locale": "fr"}], "targets": [{"reference": "tone:1.0.0"}]}
    with pair.client() as client, pair.load(bodies("desk", 20)) as load:
        load.more(8)
        assert {answer.status_code for answer in load.answers} == {404}
        client.routes.set({**route, "spec": {"rules": [french, {"name": "rest", "targets": half}]}})
        split = settled(pair, load, {**bodies("desk")[0], "locale": "fr"}, "tone:1.0.0")
        load.more(60)
    arms: dict[str, set[str]] = {}
    for answer in load.answers[split:]:
        arms.setdefault(json.loads(answer.request.content)["session_id"], set()).add(model_of(answer))
    assert {len(found) for found in arms.values()} == {1}, "a session has one arm, whichever gateway answers"
    assert set().union(*arms.values()) == {"tone:2.0.0", "tone:3.0.0"}
    with pair.http(1) as http:
        answer = http.post(CHAT, json={**bodies("desk")[0], "locale": "fr-CA"})
    assert (model_of(answer), answer.json()["graftwork"]["rule"]) == ("tone:1.0.0", "french")
    with pair.client(1) as client, pair.http() as http:
        client.routes.set({**route, "spec": {"rules": [french]}})
        eventually(lambda: http.post(CHAT, json=bodies("desk")[0]).status_code == 404, BOUND_S)
        client.routes.rollback("desk")
        eventually(lambda: http.post(CHAT, json=bodies("desk")[0]).status_code == 200, BOUND_S)


def test_a_rollback_moves_the_other_gateway_and_streams_end_on_their_version(pair: Gateways) -> None:
    told: list[dict[str, Any]] = []
    began = threading.Event()

    def stream() -> None:
        body = {**bodies()[0], "max_tokens": 400, "ignore_eos": True, "stream": True}
        with pair.http(1) as http, http.stream("POST", CHAT, json=body) as lines:
            for line in lines.iter_lines():
                if line.startswith("data: {"):
                    told.append(json.loads(line.removeprefix("data: ")))
                    began.set()

    with pair.client() as client:
        client.promote("tone:2.0.0")
        with pair.load(bodies()) as load:
            eventually(lambda: any(answer.json().get("model") == "tone:2.0.0" for answer in load.answers[-8:]))
            streaming = threading.Thread(target=stream)
            streaming.start()
            assert began.wait(30)
            client.rollback("tone", reason="the tone")
            heard, count = len(told), len(load.answers)
            eventually(lambda: {model_of(answer) for answer in load.answers[count:][-8:]} == {"tone:1.0.0"}, BOUND_S)
            settled = len(load.answers)
            load.more(20)
            streaming.join(120)
    assert not streaming.is_alive() and heard < len(told), "the stream was under way, and ended"
    assert {model_of(answer) for answer in load.answers[settled + 4 :]} == {"tone:1.0.0"}, "nobody goes back again"
    assert {one["model"] for one in told} == {"tone:2.0.0"} and told[-1]["choices"][0]["finish_reason"] == "length"
    text = "".join(one["choices"][0]["delta"].get("content") or "" for one in told)
    with pair.http() as http:
        body = {**bodies("tone:2.0.0")[0], "max_tokens": 400, "ignore_eos": True}
        assert text == http.post(CHAT, json=body).json()["choices"][0]["message"]["content"]
    check_unmixed(pair, load, ["tone:1.0.0", "tone:2.0.0"])
    check_explained(pair, load)


@contextmanager
def standing_still(processes: Sequence[subprocess.Popen[str]]) -> Iterator[None]:
    for one in processes:
        one.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        for one in processes:
            one.send_signal(signal.SIGCONT)


def test_when_the_gateway_that_does_the_steps_is_killed_another_goes_on(pair: Gateways, tmp_path: Path) -> None:
    steps = [part for percent in (10, 30, 50, 70) for part in (weight(percent), hold("500ms"))]
    with server(pair.home, Path(pair.base), tmp_path / "log", **pair.settings) as (url, process):
        # The others stand still, so that none of them takes the lease.
        with Client(url, api_key=pair.key) as third, standing_still(pair.processes):
            third.rollouts.start(document("tone", canary(*steps), "tone:3.0.0"))
            eventually(lambda: third.rollouts.show("tone")["step"] >= 1)
            before = third.rollouts.show("tone")["step"]
            os.kill(process.pid, signal.SIGKILL)
        with pair.load(bodies()) as load:
            load.more(20)
            with pair.client(1) as client:
                eventually(lambda: client.rollouts.show("tone")["status"] == "promoted", 60)
                done = [one for one in reversed(client.rollouts.steps("tone")) if one["revision"] == 1]
            load.more(20)
    assert 1 <= before < len(steps), "most was left to do"
    weights = [one["after"]["weights"]["candidate"] for one in done if one["kind"] == "weight_set"]
    assert weights == [10.0, 30.0, 50.0, 70.0], "each once, in their order"
    assert Counter(one["kind"] for one in done)["promoted"] == 1
    check_unmixed(pair, load, ["tone:1.0.0", "tone:3.0.0"])
    check_explained(pair, load)


@pytest.fixture(scope="module")
def shipped(
    smollm2: Tiny, postgresql: PostgreSQLServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Gateways]:
    """On the built-in base, with the two versions of `sentiment` that are shipped; bits are those of each row alone."""
    home = tmp_path_factory.mktemp("shipped")
    settings = {"GRAFTWORK_BASE": "smollm2-135m", "GRAFTWORK_BASE_NAME": "smollm2-135m"}
    settings |= {"GRAFTWORK_CACHE_DIR": str(smollm2.settings.cache_dir), "GRAFTWORK_DETERMINISTIC": "true"}
    with postgresql.database() as url, gateways(url, home, "smollm2-135m", **settings) as made:
        with made.client() as client:
            client.push(EXAMPLES / "sentiment-v1", "sentiment:1.0.0")
            client.push(EXAMPLES / "sentiment", "sentiment:1.1.0")
        yield made


def labels() -> dict[str, str]:
    """What is right to say of the texts that examples/measure.py measured the versions on: some 62 and 90 in 100."""
    rows = [line.split("\t") for line in (EXAMPLES.parent / "data" / "sentiment.tsv").read_text().splitlines()]
    return {text: label for split, label, text in rows if split == "held-out"}


def question(text: str, model: str = "sentiment") -> dict[str, Any]:
    return {"model": model, "max_tokens": 3, "temperature": 0, "messages": [{"role": "user", "content": text}]}


def questions(texts: Sequence[str]) -> list[dict[str, Any]]:
    """Each text in conversations of its own, 2,000 in all."""
    return [{**question(texts[number % len(texts)]), "session_id": f"session-{number}"} for number in range(2000)]


def shuffled() -> list[str]:
    return random.Random(7).sample(sorted(labels()), len(labels()))


def right(answer: httpx.Response) -> bool:
    """Whether it says what is right to say of the text that was asked about."""
    text = json.loads(answer.request.content)["messages"][-1]["content"]
    said: str = answer.json()["choices"][0]["message"]["content"]
    return labels()[text] in said.lower()


def telling(made: Gateways, count: int) -> list[str]:
    """Texts that tell the versions apart: the second is right of these and the first is not, so few answers show it."""
    with made.http() as http:

        def differ(text: str) -> bool:
            one, two = (right(http.post(CHAT, json=question(text, f"sentiment:{of}"))) for of in ("1.0.0", "1.1.0"))
            return two and not one

        return list(itertools.islice(filter(differ, shuffled()), count))


def rated(http: httpx.Client, answer: httpx.Response) -> None:
    """Whoever asked says whether the answer was right."""
    if answer.status_code == 200:
        body = {"request_id": answer.headers["x-graftwork-request"], "name": "right", "value": float(right(answer))}
        http.post("/v1/feedback", json=body).raise_for_status()


def test_the_shipped_versions_change_over_by_steps_and_are_taken_back_by_hand(shipped: Gateways) -> None:
    with shipped.client() as client, shipped.load(questions(shuffled()[:12])) as load:
        client.promote("sentiment:1.0.0")
        client.rollouts.start(
            document("sentiment", canary(weight(20), hold("1s"), weight(60), hold()), "sentiment:1.1.0")
        )
        eventually(lambda: client.rollouts.show("sentiment")["held"] == "step", 120)
        split = load.more(40, 120)
        moved = next(one for one in reversed(load.answers) if model_of(one) == "sentiment:1.1.0")
        client.rollouts.abort("sentiment", reason="by hand")
        count = settled(shipped, load, json.loads(moved.request.content), "sentiment:1.0.0")
        load.more(20, 120)
    assert {model_of(answer) for answer in load.answers[split + 4 : split + 40]} == {
        "sentiment:1.0.0",
        "sentiment:1.1.0",
    }
    assert {model_of(answer) for answer in load.answers[count:]} == {"sentiment:1.0.0"}
    check_unmixed(shipped, load, ["sentiment:1.0.0", "sentiment:1.1.0"])
    check_explained(shipped, load)


def test_gates_promote_the_better_shipped_version_and_take_the_worse_one_back(shipped: Gateways) -> None:
    gate = {"name": "right", "provider": {"feedback": {"name": "right"}}, "interval": "1s", "minSamples": 12}
    gate |= {"successCondition": "result - stable >= 0", "failureCondition": "result - stable < 0"}
    steps = canary(weight(50), {"analysis": {"name": "careful"}}, weight(100))
    asked = questions(telling(shipped, 6))
    with shipped.client() as client, shipped.load(asked, then=rated) as load:
        client.analyses.set(template(gate))
        client.promote("sentiment:1.0.0")
        ends = []
        for candidate in ("sentiment:1.1.0", "sentiment:1.0.0"):
            client.lifecycle.set_stage(candidate, "staging")
            client.rollouts.start(document("sentiment", steps, candidate))
            eventually(lambda: client.rollouts.show("sentiment")["ended_at"] is not None, 300)
            ends.append(client.rollouts.show("sentiment"))
            other = next(one for one in reversed(load.answers) if model_of(one) == "sentiment:1.0.0")
            count = settled(shipped, load, json.loads(other.request.content), "sentiment:1.1.0")
            load.more(20, 120)
            assert {model_of(answer) for answer in load.answers[count:]} == {"sentiment:1.1.0"}
    assert [one["status"] for one in ends] == ["promoted", "aborted"], [one["reason"] for one in ends]
    assert "right: " in ends[1]["reason"] and [one["weight"] for one in ends[1]["arms"]] == [0.0, 100.0]
    check_unmixed(shipped, load, ["sentiment:1.0.0", "sentiment:1.1.0"])
    check_explained(shipped, load)

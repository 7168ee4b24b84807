"""Gates move rollouts: on two servers of one database, while requests come all the time, and told to everybody."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from graftwork.client import Client
from graftwork.errors import Refused
from graftwork.gateway.app import build_app
from graftwork.protocol.resource import API_VERSION
from graftwork.settings import Settings
from graftwork.testing import FakeEngine, write_lora
from support.analysis import template
from support.databases import NewHome
from support.load import Load, listening
from support.receiver import receiving
from support.rollouts import canary, document, hold, weight
from support.waiting import eventually

pytestmark = pytest.mark.alone

#: What each version's answers are worth to those who asked, by its label: so far apart that few answers prove it.
WORTH = {"support:1.0.0": 0.8, "support:2.0.0": 0.0, "support:3.0.0": 1.0}
LOOKS = {"interval": "200ms", "minSamples": 20}
CAREFUL = (
    {
        "name": "success",
        "provider": {"rate": {"measure": "success_rate"}},
        "successCondition": "result >= 0.7",
        **LOOKS,
    },
    {
        "name": "empty",
        "provider": {"rate": {"measure": "empty_rate"}},
        "failureCondition": "result - stable > 0.1",
        **LOOKS,
    },
    {
        "name": "slow",
        "provider": {"amount": {"measure": "latency_s", "statistic": "p50"}},
        "failureCondition": "result / stable > 20",
        **LOOKS,
    },
    {
        "name": "rating",
        "provider": {"feedback": {"name": "rating"}},
        "failureCondition": "result - stable < {{args.worse}}",
        **LOOKS,
    },
)
BY = {"name": "careful", "args": [{"name": "worse", "value": -0.1}]}
GATED = canary(weight(40), {"analysis": BY}, weight(80), hold("300ms"), weight(100), analysis=BY)


@dataclass
class Pair:
    """Two servers of one database, and their engines."""

    urls: list[str]
    engines: list[FakeEngine]
    client: Client

    def both(self, change: Callable[[FakeEngine], None]) -> None:
        for engine in self.engines:
            change(engine)


@pytest.fixture
def pair(database_url: str, new_home: NewHome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pair]:
    """Three versions of one adapter, the first in production, and a template; looks follow each other fast."""
    monkeypatch.setattr("graftwork.traffic.judging.template_judge.LEAST_S", 0.2)
    monkeypatch.setattr("graftwork.traffic.judging.template_judge.SHARE", 0.5)
    settings = Settings(
        home=new_home(tmp_path / "home"),
        base="fake-base",
        base_name="fake-base",
        port=0,
        database_url=database_url,
        webhook_private_targets=True,
    )
    engines = [FakeEngine(), FakeEngine()]
    apps = [build_app(settings, engine=one, outline_of=lambda one=one: one.outline) for one in engines]  # type: ignore[misc]
    with listening(*apps) as urls, Client(urls[0]) as client:
        for number in (1, 2, 3):
            folder = write_lora(tmp_path / f"lora-{number}", engines[0].outline, seed=number)
            client.push(folder, f"support:{number}.0.0")
        client.promote("support:1.0.0")
        client.analyses.set(template(*CAREFUL, args=[{"name": "worse"}]))
        yield Pair(urls, engines, client)


def rate(http: httpx.Client, answer: httpx.Response) -> None:
    """Who asked says what the answer was worth to him."""
    if answer.status_code != 200:
        return
    said = answer.json()
    body = {"request_id": answer.headers["x-graftwork-request"], "name": "rating", "value": WORTH[said["model"]]}
    assert http.post("/v1/feedback", json=body).status_code == 201


def ended(pair: Pair) -> dict[str, Any]:
    eventually(lambda: pair.client.rollouts.show("support")["ended_at"] is not None, 60, pause_s=0.05)
    return pair.client.rollouts.show("support")


def test_a_good_canary_is_promoted_by_its_gates_and_no_answer_fails_or_is_mixed(pair: Pair) -> None:
    with Load(pair.urls, then=rate) as load:
        pair.client.rollouts.start(document("support", GATED, "support:3.0.0"))
        found = ended(pair)
        assert found["status"] == "promoted", found["reason"]
        count = len(load.answers)
        eventually(lambda: len(load.answers) > count + 20)
    assert {one["result"] for one in found["analyses"]} == {"pass"}
    assert pair.client.show("support@production")["semver"] == "3.0.0"
    assert unmixed(load) == {"support:1.0.0", "support:3.0.0"}
    kinds = [one["kind"] for one in pair.client.rollouts.steps("support")]
    assert kinds.count("passed") == 2
    explained(pair, load)


def test_a_canary_that_people_rate_lower_is_taken_back_and_no_answer_fails_or_is_mixed(pair: Pair) -> None:
    with receiving() as receiver, Load(pair.urls, then=rate) as load:
        pair.client.webhooks.set("ci", receiver.url, ["rollout.aborted"])
        pair.client.rollouts.start(document("support", GATED))
        found = ended(pair)
        assert found["status"] == "aborted" and "rating: result - stable < -0.1 is proven" in found["reason"]
        time.sleep(0.1)
        count = len(load.answers) + 4  # those that were asked before
        eventually(lambda: len(load.answers) > count + 20)
        eventually(lambda: bool(receiver.got))
    assert set(load.since(count)) == {"support:1.0.0"}, "nobody is answered by it any more"
    assert unmixed(load) == {"support:1.0.0", "support:2.0.0"}
    told = json.loads(receiver.got[0].body)["data"]
    assert (told["kind"], told["payload"]["reason"]) == ("rollout.aborted", found["reason"])
    [standing] = told["payload"]["evidence"]["analyses"]
    rating = next(one for one in standing["metrics"] if one["name"] == "rating")
    assert rating["result"] == "fail" and rating["figures"]["high"] < rating["figures"]["bound"] == -0.1
    explained(pair, load)


@pytest.mark.parametrize(
    ("change", "metric"),
    [
        (lambda engine: engine.answers_of.update({"support:2.0.0": ""}), "empty"),
        (lambda engine: engine.failures.update({"support:2.0.0": Refused("It is broken.")}), "success"),
    ],
)
def test_a_canary_that_answers_nothing_or_fails_is_taken_back(
    pair: Pair, change: Callable[[FakeEngine], None], metric: str
) -> None:
    with Load(pair.urls, threads=2) as load:  # nobody rates, so that nothing else fails
        pair.client.rollouts.start(document("support", GATED))
        eventually(lambda: pair.client.rollouts.show("support")["step"] == 1)
        pair.both(change)
        found = ended(pair)
    assert (found["status"], f"{metric}: " in found["reason"]) == ("aborted", True), found["reason"]
    if metric != "success":
        assert {answer.status_code for answer in load.answers} == {200}


def test_versions_go_from_staging_to_production_by_themselves_and_a_bad_one_is_taken_back_once(pair: Pair) -> None:
    gate = {
        "name": "accuracy",
        "provider": {"evaluation": {"name": "sst2", "metric": "accuracy"}},
        "successCondition": "result >= 0.8",
    }
    pair.client.analyses.set({**template(gate), "metadata": {"name": "accurate"}})
    spec = {"adapters": "sup*", "when": {"stage": "staging"}, "gate": {"name": "accurate"}, "approved": True}
    pair.client.promotions.set(
        {
            "apiVersion": API_VERSION,
            "kind": "PromotionPolicy",
            "metadata": {"name": "auto"},
            "spec": {**spec, "strategy": GATED},
        }
    )
    with Load(pair.urls, threads=2, then=rate) as load:
        for version, end in (("2.0.0", "aborted"), ("3.0.0", "promoted")):
            reference = f"support:{version}"
            pair.client.lifecycle.set_stage(reference, "staging")
            [waiting] = pair.client.promotions.candidates("auto")
            assert (waiting["version"], len(waiting["waits_for"]), waiting["rollout"]) == (reference, 2, None)
            measured = {"family": "task", "name": "sst2", "dataset": {"id": "sst2"}}
            pair.client.evaluations.add(reference, {**measured, "metrics": [{"name": "accuracy", "value": 0.9}]})
            pair.client.lifecycle.approve(reference)
            eventually(partial(_is_candidate, pair, reference), 60, pause_s=0.05)
            found = ended(pair)
            assert (found["status"], found["created_by"]) == (end, "promotion:auto/1"), found["reason"]
    assert unmixed(load) == {"support:1.0.0", "support:2.0.0", "support:3.0.0"}
    assert pair.client.rollouts.show("support")["revision"] == 2, "each was begun once"
    assert pair.client.show("support@production")["semver"] == "3.0.0"


def test_status_says_how_each_metric_stands_while_it_waits(pair: Pair) -> None:
    pair.client.rollouts.start(document("support", GATED))
    eventually(lambda: bool(pair.client.rollouts.show("support")["analyses"]))
    with Client(pair.urls[1]) as other:
        [beside, within] = other.rollouts.show("support")["analyses"]
    assert (within["arm"], within["name"], within["revision"]) == ("candidate", "careful", 1)
    assert within["args"] == beside["args"] == [{"name": "worse", "value": "-0.1"}]
    assert [one["name"] for one in within["metrics"]] == ["success", "empty", "slow", "rating"]
    assert within["metrics"][0]["reason"].endswith("0 of at least 20 answers of the candidate")
    assert beside["since"] <= within["since"] <= within["looked_at"]


def _is_candidate(pair: Pair, reference: str) -> bool:
    """Whether the last rollout is about this version."""
    begun = pair.client.rollouts.list()
    return bool(begun) and begun[0]["arms"][0]["version"] == reference


def unmixed(load: Load) -> set[str]:
    """Which versions answered: each answer is whole, and of the version that it says."""
    for answer in load.answers:
        assert answer.status_code == 200, answer.text
        said = answer.json()
        assert said["choices"][0]["message"]["content"] == f"{said['model']} says: hello big world"
        assert said["graftwork"]["version"] == answer.headers["x-graftwork-version"]
    return set(load.since(0))


def explained(pair: Pair, load: Load) -> None:
    """Every answer's record names the version, the rollout and the arm that its headers had; and what decided it."""
    last: dict[tuple[str, str | None], str] = {}
    for answer in load.answers[-4:]:  # whoever asks for one has what waits written, on the server that he asks
        where = f"{answer.request.url.scheme}://{answer.request.url.netloc.decode()}"
        httpx.get(f"{where}/api/v1/predictions/{answer.headers['x-graftwork-request']}").raise_for_status()
    records = {one["request_id"]: one for one in pair.client.predictions.list(route="support")}
    for answer in load.answers:
        record = records[answer.headers["x-graftwork-request"]]
        said = answer.headers["x-graftwork-arm"], answer.headers["x-graftwork-digest"]
        assert (record["arm"], record["digest"]) == said
        last[record["arm"], record["rollout"]] = record["request_id"]
    assert {("stable", "support/1"), ("candidate", "support/1")} <= set(last)
    for (_, rollout), request_id in last.items():
        decided = [one["kind"] for one in pair.client.predictions.explain(request_id)["decided_by"]]
        assert ("rollout.weight_set" in decided) == (rollout is not None)

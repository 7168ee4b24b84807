"""The four families of evaluations: what each must say, and how what is wrong is said by its field."""

from __future__ import annotations

import json
from typing import Any

import pytest

from graftwork.errors import InvalidRequest
from graftwork.protocol.evaluations import MAX_METRICS, MAX_REPORTS, EvaluationBody
from support.evaluations import HISTOGRAM, ONE_OF_EACH, WINDOW, business, drift, inference, task

DIGEST = "sha256:" + "a" * 64


def read(body: dict[str, Any]) -> EvaluationBody:
    return EvaluationBody.read(json.dumps(body).encode())


@pytest.mark.parametrize("family", ONE_OF_EACH)
def test_what_is_kept_is_what_was_said(family: str) -> None:
    assert read(ONE_OF_EACH[family]).model_dump(mode="json", exclude_unset=True) == ONE_OF_EACH[family]


def test_each_family_has_its_numbers_by_name() -> None:
    found = {family: {one.name: one.value for one in read(body).measures()} for family, body in ONE_OF_EACH.items()}
    assert found == {
        "task": {"accuracy": 0.5},
        "inference": {"latency_p50_s": 0.5, "latency_p99_s": 1.5, "memory_bytes": float(1 << 30)},
        "drift": {},
        "business": {"conversion": 0.1},
    }
    assert [one.higher_is_better for one in read(inference(output_tokens_per_s=9)).measures()] == [False] * 3 + [True]


def metrics(*names: str) -> dict[str, Any]:
    return {"metrics": [{"name": name, "value": 1} for name in names]}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "family"),
        ({"family": "other"}, "family"),
        (task(metrics=[]), "metrics"),
        (task(**metrics("a", "b", "a")), "metrics.2.name"),
        (task(**metrics("a b")), "metrics.0.name"),
        (task(**metrics("précision")), "metrics.0.name"),
        (task(**metrics("F１")), "metrics.0.name"),
        (task(**metrics("")), "metrics.0.name"),
        (task(**metrics("-a")), "metrics.0.name"),
        (task(**metrics("a\n")), "metrics.0.name"),
        (task(**metrics("a" * 129)), "metrics.0.name"),
        (task(**metrics(*(f"m{n}" for n in range(MAX_METRICS + 1)))), "metrics"),
        (task(float("nan")), "metrics.0.value"),
        (task(float("-inf")), "metrics.0.value"),
        (task(10**400), "metrics.0.value"),
        (task(True), "metrics.0.value"),
        (task(metrics=[{"name": "a", "value": 1, "stderr": -0.1}]), "metrics.0.stderr"),
        (task(metrics=[{"name": "a", "value": 1, "n": 0}]), "metrics.0.n"),
        (task(metrics=[{"name": "a", "value": 1, "n": 2**53}]), "metrics.0.n"),
        (task(split="dev"), "split"),
        (task(dataset={}), "dataset.id"),
        (task(dataset={"id": "x" * 257}), "dataset.id"),
        (task(nots="typo"), "nots"),
        (task(measured_at="2026-02-30T00:00:00Z"), "measured_at"),
        (task(measured_at="2026-02-03"), "measured_at"),
        (task(base_digest="sha256:abc"), "base_digest"),
        (task(notes="x" * 16_385), "notes"),
        (task(supersedes=0), "supersedes"),
        (task(reports=[{"name": "r", "digest": DIGEST}] * (MAX_REPORTS + 1)), "reports"),
        (inference(load={"clients": 0, "prompt_tokens": 1, "output_tokens": 1}), "load.clients"),
        (inference(latency_s={"p50": 2, "p99": 1}), "latency_s"),
        (inference(latency_s={"p50": -1}), "latency_s.p50"),
        ({**inference(latency_s=None), "memory_bytes": None}, "latency_s"),
        (drift(distributions={}), "distributions"),
        (drift(distributions={"logprob": {**HISTOGRAM, "edges": [0, 10]}}), "distributions.logprob"),
        (drift(distributions={"logprob": {**HISTOGRAM, "edges": [0, 10, 10]}}), "distributions.logprob"),
        (drift(distributions={"logprob": {"edges": [0, 1], "counts": [0]}}), "distributions.logprob"),
        (drift(distributions={"tokens": {"counts": {"a": -1}}}), "distributions.tokens.counts.a"),
        (drift(distributions={"tokens": {"counts": {str(n): 1 for n in range(4097)}}}), "distributions.tokens.counts"),
        (business(source="rumour"), "source"),
        ({key: value for key, value in business().items() if key != "source"}, "source"),
        (business(window={"start": WINDOW["end"], "end": WINDOW["start"]}), "window"),
        (business(window={"start": WINDOW["start"], "end": WINDOW["start"]}), "window"),
    ],
)
def test_what_is_wrong_is_said_by_its_field(body: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read(body)
    assert caught.value.field == field


def test_every_limit_itself_is_allowed() -> None:
    names = ["a" * 128, *(f"m{n}" for n in range(MAX_METRICS - 1))]
    read(task(**metrics(*names), notes="x" * 16_384, reports=[{"name": "r", "digest": DIGEST}] * MAX_REPORTS))
    read(task(metrics=[{"name": "a", "value": 1.7e308, "n": 2**53 - 1}]))
    read(drift(distributions={"tokens": {"counts": {str(n): 1 for n in range(4096)}}}))

"""The doors of evaluations over HTTP and by the client."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from graftwork.errors import Conflict, InvalidRequest, NotFound
from support.evaluations import ONE_OF_EACH, task
from support.served import Served

DOOR = "/api/v1/adapters/alpha/versions/1.0.0/evaluations"


@pytest.fixture(autouse=True)
def _pushed(served: Served) -> None:
    served.push("alpha:1.0.0", seed=1)
    served.push("alpha:1.1.0", seed=2)


def test_what_is_added_can_be_shown_and_listed(served: Served) -> None:
    made = served.http.post(DOOR, json=task())
    assert made.status_code == 201 and made.headers["location"] == f"{DOOR}/1"
    assert served.http.get(made.headers["location"]).json() == made.json()
    assert made.json()["evaluation"] == task()
    for body in ONE_OF_EACH.values():
        served.client.evaluations.add("alpha:1.0.0", body)
    page = served.http.get(DOOR, params={"page_size": 2}).json()
    assert [one["number"] for one in page["evaluations"]] == [5, 4]
    assert [one["number"] for one in served.client.evaluations.list("alpha:1.0.0")] == [5, 4, 3, 2, 1]
    assert [one["number"] for one in served.client.evaluations.list("alpha:1.0.0", family="drift")] == [4]
    assert [one["number"] for one in served.client.evaluations.list("alpha:1.0.0", name="sst2")] == [2, 1]
    digest = served.client.show("alpha:1.0.0")["digest"]
    by_digest = served.http.get(f"/api/v1/tenants/local/adapters/alpha/versions/{digest}/evaluations/1")
    assert by_digest.json() == made.json()
    assert served.client.evaluations.show("alpha:1.0.0", 3)["evaluation"]["family"] == "inference"


@pytest.mark.parametrize(
    ("path", "status"),
    [
        (f"{DOOR}/1", 404),
        (f"{DOOR}/0", 400),
        (f"{DOOR}/x", 400),
        (f"{DOOR}/{2**60}", 400),
        (f"{DOOR}?page_size=0", 400),
        (f"{DOOR}?page_size=1001", 400),
        (f"{DOOR}?page_token=x", 400),
        (f"{DOOR}?page_token={'9' * 40}", 400),
        (f"{DOOR}?family=other", 400),
        (f"{DOOR}?name={'x' * 129}", 400),
        (f"{DOOR}?name=a%00", 400),
        ("/api/v1/adapters/alpha/trend?metric=%C3%A9", 400),
        ("/api/v1/compare?reference=alpha:1.0.0&reference=alpha:1.1.0&metric=%00", 400),
        (f"{DOOR.replace('1.0.0', '9.9.9')}", 404),
        (f"{DOOR.replace('1.0.0', 'x')}", 400),
        (f"{DOOR.replace('alpha', 'other%2Falpha')}", 400),
        ("/api/v1/tenants/other/adapters/alpha/versions/1.0.0/evaluations", 404),
        ("/api/v1/compare", 400),
        ("/api/v1/compare?reference=alpha:1.0.0", 400),
        ("/api/v1/compare?reference=alpha:1.0.0&reference=alpha:1.0.0", 400),
        ("/api/v1/compare?reference=alpha:1.0.0&reference=other/alpha", 404),
        ("/api/v1/compare" + "?reference=alpha:1.0.0" + "&reference=x" * 16, 400),
        ("/api/v1/adapters/alpha/trend", 400),
        ("/api/v1/adapters/nope/trend?metric=a", 404),
        ("/api/v1/adapters/alpha/trend?metric=a&limit=1001", 400),
    ],
)
def test_what_is_asked_wrongly_is_a_4xx(served: Served, path: str, status: int) -> None:
    assert served.http.get(path).status_code == status


def test_a_wrong_parameter_is_told_as_a_wrong_field_is(served: Served) -> None:
    told = served.http.get("/api/v1/compare?reference=alpha:1.0.0").json()
    assert (told["field"], told["detail"]) == ("reference", "reference must have at least 2.")


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        (task(metrics=[]), 400, "metrics"),
        ("[]", 400, None),
        ('{"family": "task", "name": "a", "dataset": {"id": "a"}, "metrics": [{"name": "a", "value": NaN}]}', 400,
         "metrics.0.value"),
        ('{"family": "task", "name": "a", "dataset": {"id": "a"}, "metrics": [{"name": "a", "value": 1e999}]}', 400,
         "metrics.0.value"),
        (json.dumps(task(conditions={"x": "\ud800"})), 400, None),
        (task(conditions={"x": 2**60}), 400, "evaluation"),
        (task(supersedes=1), 409, None),
        (task(base_digest="sha256:" + "1" * 64), 409, None),
        (task(examples={"digest": "sha256:" + "0" * 64}), 409, None),
    ],
)  # fmt: skip
def test_a_body_that_is_wrong_keeps_nothing(served: Served, body: Any, status: int, field: str | None) -> None:
    content = body if isinstance(body, str) else json.dumps(body)
    answer = served.http.post(DOOR, content=content.encode(), headers={"content-type": "application/json"})
    assert (answer.status_code, answer.json().get("field")) == (status, field), answer.text
    assert served.client.evaluations.list("alpha:1.0.0") == []


def test_the_same_key_adds_once(served: Served) -> None:
    for _ in range(2):
        assert served.client.evaluations.add("alpha:1.0.0", task(), idempotency_key="a")["number"] == 1
    with pytest.raises(Conflict, match="Idempotency-Key"):
        served.client.evaluations.add("alpha:1.0.0", task(0.6), idempotency_key="a")


def test_files_are_uploaded_and_versions_compared_on_their_examples(served: Served, tmp_path: Path) -> None:
    report = tmp_path / "report.html"
    report.write_text("<p>fine</p>")
    for version, right in (("1.0.0", 4), ("1.1.0", 12)):
        examples = tmp_path / f"{version}.jsonl"
        lines = [json.dumps({"id": str(n), "scores": {"accuracy": int(n < right)}}) for n in range(16)]
        examples.write_text("\n".join(lines))
        body = task(right / 16)
        made = served.client.evaluations.add(f"alpha:{version}", body, examples=examples, reports=[report])
        assert made["evaluation"]["reports"][0]["name"] == "report.html"
    found = served.client.evaluations.compare("alpha:1.0.0", "alpha:1.1.0", metrics=["accuracy"])
    (delta,) = found["metrics"][0]["deltas"]
    assert (delta["delta"], delta["direction"], delta["paired"]["p"]) == (0.5, "better", 2 * 0.5**8)
    trend = served.client.evaluations.trend("alpha", "accuracy")["series"][0]["points"]
    assert [(point["version"], point["value"], point["delta"]) for point in trend] == [
        ("1.0.0", 0.25, None),
        ("1.1.0", 0.75, 0.5),
    ]
    with pytest.raises(NotFound):
        served.client.evaluations.compare("alpha:1.0.0", "alpha:7.0.0")


def test_an_import_keeps_all_of_a_file_or_nothing(served: Served, tmp_path: Path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text("- {dataset: {id: a}, value: 1}\n- {dataset: {id: b}, value: .inf}\n")
    with pytest.raises(InvalidRequest, match=r"1\.value"):
        served.client.evaluations.import_file("alpha:1.0.0", file)
    assert served.client.evaluations.list("alpha:1.0.0") == []
    file.write_text("- {dataset: {id: a}, value: 1}\n- {dataset: {id: b}, value: 2}\n")
    made = served.client.evaluations.import_file("alpha:1.0.0", file)
    assert [one["evaluation"]["name"] for one in made] == ["a", "b"]

"""The example tasks give results of their types, by the trained adapters on the built-in base, from a real server."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from docs.pages import ROOT
from docs.running import Place
from graftwork.client import Client

pytestmark = pytest.mark.e2e

SENTIMENT = {
    "I absolutely love this little café.": "positive",
    "I gave up on this podcast after ten minutes of adverts.": "negative",
}
WEDDING = "When Esther and Diego Leclerc got married in Cork, half the village came."
SHOPS = "Oxfam is testing shops without staff in Cork. Customers scan the goods with their phones and pay on the way."
SUM = "Write a function that returns the sum of the even numbers in a list."


@pytest.fixture(scope="module")
def client(place: Place) -> Iterator[Client]:
    """Of a server that has the four adapters and their tasks, under names of their own: the pages have theirs."""
    with Client(place.url) as client:
        for name in ("sentiment", "entities", "summary", "code"):
            document = yaml.safe_load((ROOT / "examples" / "tasks" / f"{name}.yaml").read_text(encoding="utf-8"))
            assert document["metadata"]["name"] == document["spec"]["adapter"] == name
            document["metadata"]["name"] = document["spec"]["adapter"] = f"task-{name}"
            client.push(ROOT / "examples" / "adapters" / name, f"task-{name}")
            client.tasks.set(document)
        yield client


def results(client: Client, task: str, *texts: str) -> list[Any]:
    made = client.tasks.run_each(f"task-{task}", texts)
    assert [one["error"] for one in made["data"]] == [None] * len(texts)
    assert (made["model"], made["graftwork"]["task"]) == (f"task-{task}:1.0.0", f"task-{task}/1")
    return [one["result"] for one in made["data"]]


def test_each_task_gives_a_value_of_its_type(client: Client) -> None:
    assert results(client, "sentiment", *SENTIMENT) == list(SENTIMENT.values())
    [found] = results(client, "entities", WEDDING)
    assert list(found) == ["people", "places", "organisations"]
    assert all(isinstance(name, str) for names in found.values() for name in names)
    assert "Cork" in found["places"]
    [summary] = results(client, "summary", SHOPS)
    assert "Oxfam" in summary and summary == summary.strip()
    [code] = results(client, "code", SUM)
    assert isinstance(ast.parse(code).body[0], ast.FunctionDef)


def test_an_answer_that_is_cut_off_is_no_result_and_its_neighbours_are(client: Client) -> None:
    document = yaml.safe_load((ROOT / "examples" / "tasks" / "entities.yaml").read_text(encoding="utf-8"))
    document["metadata"]["name"], document["spec"]["adapter"] = "task-short", "task-entities"
    document["spec"]["sampling"]["maxTokens"] = 24
    client.tasks.set(document)
    made = client.tasks.run_each("task-short", ["It rained.", WEDDING])
    assert made["data"][0]["result"] == {"people": [], "places": [], "organisations": []}
    cut = made["data"][1]
    assert (cut["result"], cut["error"]["code"], cut["finish_reason"]) == (None, "unreadable_answer", "length")
    assert cut["text"].startswith('{"people":["Esther"')

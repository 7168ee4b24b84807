"""Evaluation results as the Hugging Face Hub keeps them: in a model card, and in `.eval_results`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from graftwork.errors import InvalidRequest
from graftwork.registry.evaluations.files import read_evaluation_file, read_result_file
from graftwork.registry.evaluations.hugging_face import read_eval_results, read_model_index

DATA = Path(__file__).parent / "data"


def test_each_result_of_a_card_is_an_evaluation() -> None:
    samsum, mnli = (one.evaluation for one in read_result_file(DATA / "card.md"))
    assert (samsum["name"], samsum["split"]) == ("summarization/knkarthick/samsum", "test")
    assert samsum["dataset"] == {
        "id": "knkarthick/samsum",
        "config": "default",
        "revision": "5503434ddd753f426f4b38109466949a1217c2bb",
    }
    found = {metric["name"]: metric["value"] for metric in samsum["metrics"]}
    assert found == {"ROUGE-1": 41.3, "ROUGE-2": 20.0, "loss": 1.6}
    assert samsum["extra"]["metrics"][2]["verifyToken"] == "eyJhbGciOiJFZERTQSJ9"
    assert samsum["extra"]["source"]["name"] == "Our own run"
    assert (mnli["name"], mnli["dataset"]["id"]) == ("text-classification/GLUE-MNLI", "GLUE (MNLI)")
    assert "split" not in mnli and mnli["conditions"]["split"] == "validation_matched"


def test_each_entry_of_eval_results_is_an_evaluation() -> None:
    hle, gpqa = (one.evaluation for one in read_result_file(DATA / "hle.yaml"))
    assert (hle["name"], hle["dataset"]["revision"][:6], hle["notes"]) == ("cais/hle/default", "550343", "no-tools")
    assert hle["metrics"] == [{"name": "score", "value": 20.9}]
    assert hle["measured_at"] == "2025-01-15T00:00:00Z"
    assert hle["conditions"] == {"setup": "no-tools"}
    assert hle["extra"]["source"]["user"] == "somebody" and hle["extra"]["verifyToken"]
    assert gpqa["measured_at"] == "2025-01-15T10:30:00Z"


def test_the_hubs_own_library_reads_the_same_files() -> None:
    from huggingface_hub import parse_eval_result_entries
    from huggingface_hub.repocard_data import model_index_to_eval_results

    index = yaml.safe_load((DATA / "card.md").read_text().split("---")[1])["model-index"]
    theirs = [one.metric_value for one in model_index_to_eval_results(index)[1]]
    ours = [metric["value"] for one in read_model_index(index) for metric in one.evaluation["metrics"]]
    assert [float(str(one).split()[0]) for one in theirs] == ours
    entries = yaml.safe_load((DATA / "hle.yaml").read_text())
    pairs = [(one.dataset_id, one.value) for one in parse_eval_result_entries(entries)]
    mine = [
        (one.evaluation["dataset"]["id"], one.evaluation["metrics"][0]["value"]) for one in read_eval_results(entries)
    ]
    assert pairs == mine


def card(**changes: Any) -> dict[str, Any]:
    metrics = [{"type": "accuracy", "value": 1}]
    return {"task": {"type": "t"}, "dataset": {"type": "d", "name": "D"}, "metrics": metrics, **changes}


@pytest.mark.parametrize(
    ("index", "said"),
    [
        ([], "model-index has no results"),
        ({}, "model-index must be a list"),
        ([7], "model-index.0 must be an object"),
        ([{"results": 7}], "model-index.0.results must be a list"),
        ([{"results": [card(task={})]}], "model-index.0.results.0.task.type must be text, not nothing"),
        ([{"results": [card(), card(dataset=None)]}], "results.1.dataset must be an object, not nothing"),
        ([{"results": [card(metrics=[{"type": "f1"}])]}], "metrics.0.value must be a finite number"),
        ([{"results": [card(metrics=[{"type": "f1", "value": "good"}])]}], "metrics.0.value must be a finite number"),
        ([{"results": [card(metrics=[{"type": "f1", "value": "1.2.3"}])]}], "metrics.0.value must be a finite number"),
        ([{"results": [card(metrics=[{"type": "f1", "value": float("inf")}])]}], "must be a finite number"),
    ],
)
def test_a_malformed_index_is_said_by_its_place(index: object, said: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read_model_index(index)
    assert said in caught.value.message


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("[]", "has no entries"),
        ("- 7", "0 must be an object"),
        ("- {value: 1}", "0.dataset must be an object"),
        ("- {dataset: {task_id: x}, value: 1}", "0.dataset.id must be text"),
        ("- {dataset: {id: x}, value: .nan}", "0.value must be a finite number"),
        ("- {dataset: {id: x}, value: 1, date: soon}", "0.date is no time"),
        ("- {dataset: {id: x}, value: 1, date: [1]}", "0.date must be a time"),
        ("- &a {dataset: {id: x}, value: 1}\n- *a", "aliases are not taken"),
        ("- {dataset: {id: x}, value: 1, " + "more: {" * 900 + "}" * 901, "cannot be read"),
        ("{", "cannot be read"),
        ("hello: world", "this is no result file"),
        ("", "this is no result file"),
        ("- !!python/object/apply:os.system [true]", "cannot be read"),
    ],
)
def test_a_malformed_file_is_said_by_its_place(written: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text(written)
    with pytest.raises(InvalidRequest) as caught:
        read_result_file(tmp_path / "x.yaml")
    assert said in caught.value.message and "x.yaml" in caught.value.message


def test_keys_and_values_that_json_has_not_do_not_hinder(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text("- {dataset: {id: x}, value: 1, when: 2025-01-15, 2025-01-15: 1, 7: [.nan]}")
    extra = read_result_file(tmp_path / "x.yaml")[0].evaluation["extra"]
    assert (extra["when"], extra["7"]) == ("2025-01-15", ["NaN"])


def test_a_card_without_results_is_no_result_file(tmp_path: Path) -> None:
    for card in ("# Title", "---\ntags: [a]\n---\n"):
        (tmp_path / "card.md").write_text(card)
        with pytest.raises(InvalidRequest, match="no model card with a model-index"):
            read_result_file(tmp_path / "card.md")


def test_an_evaluation_of_ones_own_is_an_object(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("[1]")
    with pytest.raises(InvalidRequest, match="must be an object, not list"):
        read_evaluation_file(tmp_path / "x.json")

"""Result files of lm-evaluation-harness, as it writes them, and what is wrong with others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from graftwork.errors import InvalidRequest
from graftwork.registry.evaluations.files import read_result_file
from graftwork.registry.evaluations.lm_eval import read_lm_eval

DATA = Path(__file__).parent / "data"
RESULTS = DATA / "results_2026-11-30T04-12-24.098713.json"


def content() -> dict[str, Any]:
    made: dict[str, Any] = json.loads(RESULTS.read_text())
    return made


def test_each_task_is_an_evaluation_with_its_metrics() -> None:
    capitals, completions = read_result_file(RESULTS)
    body = capitals.evaluation
    assert (body["family"], body["name"], body["split"]) == ("task", "capitals", "test")
    assert body["tool"] == {"name": "lm-evaluation-harness", "version": "0.4.13"}
    assert body["measured_at"].startswith("2026-11-30T04:12:21")
    assert body["metrics"] == [
        {"name": "acc", "value": 0.75, "stderr": 0.25, "higher_is_better": True, "n": 4},
        {"name": "acc_norm", "value": 0.25, "stderr": 0.25, "higher_is_better": True, "n": 4},
    ]
    assert body["conditions"]["num_fewshot"] == 0 and body["conditions"]["task_version"] == 1.0
    assert body["conditions"]["task_hash"] == content()["task_hashes"]["capitals"]
    assert completions.evaluation["split"] == "validation"
    names = [metric["name"] for metric in completions.evaluation["metrics"]]
    assert names == ["exact_match.strict-match", "exact_match.first-word"]


def test_what_has_no_place_is_kept() -> None:
    extra = read_result_file(RESULTS)[0].evaluation["extra"]
    assert extra["transformers_version"] == "5.24.0"
    assert extra["run"]["model"] == "dummy"
    assert extra["task"]["doc_to_text"] == "{{question}}"
    assert extra["result"]["sample_len"] == 4


def test_samples_beside_it_are_scores_whose_mean_is_the_metric() -> None:
    for one in read_result_file(RESULTS):
        assert len({example["id"] for example in one.examples}) == len(one.examples) == 4
        for metric in one.evaluation["metrics"]:
            scores = [example["scores"][metric["name"]] for example in one.examples]
            assert sum(scores) / len(scores) == pytest.approx(metric["value"])


def test_without_samples_there_are_none(tmp_path: Path) -> None:
    (tmp_path / RESULTS.name).write_bytes(RESULTS.read_bytes())
    assert [one.examples for one in read_result_file(tmp_path / RESULTS.name)] == [(), ()]


def broken(**changes: Any) -> dict[str, Any]:
    return {**content(), **changes}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (broken(results={}), "results is empty"),
        (broken(results=[]), "results must be an object, not list"),
        (broken(results={"capitals": 7}), "results.capitals must be an object, not int"),
        (broken(results={"capitals": {"alias": "capitals"}}), "results.capitals has no metric"),
        (broken(results={"t": {"acc,none": "many"}}), "results.t.acc,none must be a finite number"),
        (broken(results={"t": {"acc,none": float("nan")}}), "results.t.acc,none must be a finite number"),
        (broken(results={"t": {"acc,none": True}}), "results.t.acc,none must be a finite number"),
        (broken(results={"t": {"acc,none": 1, "acc_stderr,none": "x"}}), "acc_stderr,none must be a finite"),
        (broken(results={"t": {"acc,none": 1, "acc,": 2}}), "metrics.1.name: acc is given twice"),
        (broken(results={"é": {"acc,none": 1}}), "results.é: name is required"),
        (broken(date="yesterday"), "date is no time"),
        (broken(date=1e30), "date is no time"),
        (broken(configs=[1]), "configs must be an object"),
    ],
)
def test_what_is_malformed_is_said_by_its_place(changed: dict[str, Any], said: str, tmp_path: Path) -> None:
    file = tmp_path / "results_x.json"
    file.write_text(json.dumps(changed))
    with pytest.raises(InvalidRequest) as caught:
        read_result_file(file)
    assert said in caught.value.message and str(file) in caught.value.message


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "line 1 is not JSON"),
        ("[]", "line 1: must be an object"),
        ('{"doc_id": 0}', "line 1: has no doc_hash"),
        ('{"doc_id": 0, "doc_hash": "a", "metrics": 7}', "line 1: metrics must be a list"),
        ('{"doc_id": 0, "doc_hash": "a", "metrics": [{}]}', "line 1: metrics must be text"),
        (
            '{"doc_id": 0, "doc_hash": "a", "metrics": ["acc"], "acc": 1' + "0" * 400 + "}",
            "acc must be a finite number",
        ),
        ('{"doc_id": 0, "doc_hash": "a", "metrics": ["acc"], "acc": NaN}', "line 1: acc must be a finite number"),
    ],
)
def test_samples_that_are_malformed_are_said_by_their_line(line: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "results_1.json").write_bytes(RESULTS.read_bytes())
    (tmp_path / "samples_capitals_1.jsonl").write_text(line)
    with pytest.raises(InvalidRequest) as caught:
        read_result_file(tmp_path / "results_1.json")
    assert said in caught.value.message


def test_samples_of_no_task_of_it_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="no task 'other'"):
        read_lm_eval(content(), {"other": []})


def test_older_files_say_not_available_and_no_counts() -> None:
    old = {"results": {"t": {"acc,none": 1, "acc_stderr,none": "N/A", " ": " "}}, "versions": {}}
    assert read_lm_eval(old, {})[0].evaluation["metrics"] == [{"name": "acc", "value": 1.0}]

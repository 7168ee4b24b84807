"""POST /v1/classify: vLLM's shape, and a refusal of whatever has no head."""

from __future__ import annotations

import math

import pytest

from support.served import Served

PATH = "/v1/classify"


def test_answers_in_vllms_shape(served: Served) -> None:
    digest = served.push("alpha:1.0.0")["digest"]
    served.engine.labels["alpha:1.0.0"] = ("bad", "so-so", "good")
    response = served.http.post(PATH, json={"model": "alpha", "input": ["hello", "hello big world"]})
    answer = response.json()
    assert answer["id"] == f"classify-{response.headers['x-graftwork-request']}"
    assert (answer["object"], answer["model"]) == ("list", "alpha:1.0.0")
    assert answer["usage"] == {"prompt_tokens": 4, "total_tokens": 4, "completion_tokens": 0}
    assert answer["graftwork"]["digest"] == response.headers["x-graftwork-digest"] == digest
    for index, one in enumerate(answer["data"]):
        assert (one["index"], one["label"], one["num_classes"]) == (index, "bad", 3)
        assert sum(one["probs"]) == pytest.approx(1) and one["probs"][0] == max(one["probs"])
        assert "logits" not in one
    assert served.engine.poolings[0].pooling == "classes"


def test_logits_are_given_where_asked_for(served: Served) -> None:
    served.push("alpha:1.0.0")
    served.engine.labels["alpha:1.0.0"] = ("a", "b")
    [one] = served.http.post(PATH, json={"model": "alpha", "input": "x", "logits": True}).json()["data"]
    assert one["logits"] == [-1.0, -2.0]
    assert one["probs"] == pytest.approx([1 / (1 + math.exp(-1)), 1 / (1 + math.e)])


@pytest.mark.parametrize("model", ["alpha", "fake-base"])
def test_what_has_no_head_is_a_400_that_names_it(served: Served, model: str) -> None:
    served.push("alpha:1.0.0")
    response = served.http.post(PATH, json={"model": model, "input": "x"})
    error = response.json()["error"]
    assert (response.status_code, error["param"]) == (400, "model")
    assert error["message"].startswith(model)

"""Several choices, echoes, prompt log-probabilities: each in its place, in both doors, whole and streamed."""

from __future__ import annotations

from typing import Any

import pytest

from graftwork.testing import FAKE_BASE
from support.served import CHAT, HELLO, Served, usage

TEXT = "/v1/completions"


def complete(served: Served, **fields: Any) -> Any:
    response = served.http.post(TEXT, json=fields)
    assert response.status_code == 200, response.text
    return response.json()


def refused(served: Served, path: str, **fields: Any) -> Any:
    body = {**({"messages": HELLO} if path == CHAT else {"prompt": "one two"}), **fields}
    response = served.http.post(path, json=body)
    assert response.status_code == 400, response.text
    assert served.engine.requests == []
    return response.json()["error"]


def test_choices_are_counted_prompt_by_prompt_and_each_prompt_is_paid_for_once(served: Served) -> None:
    answer = complete(served, prompt=["one", "two words"], n=3)
    assert [choice["index"] for choice in answer["choices"]] == list(range(6))
    assert [choice["text"].partition(": ")[2] for choice in answer["choices"]] == ["one"] * 3 + ["two words"] * 3
    assert answer["usage"] == usage(3, 3 * 3 + 3 * 4)
    assert len({request.id for request in served.engine.requests}) == 6


def test_streamed_choices_keep_apart_and_are_paid_for_alike(served: Served) -> None:
    chunks = served.events(n=3, stream_options={"include_usage": True})
    texts = ["", "", ""]
    for chunk in chunks[:-1]:
        [choice] = chunk["choices"]
        texts[choice["index"]] += choice["delta"].get("content", "")
    assert texts == ["fake-base says: hello big world"] * 3
    assert chunks[-1]["usage"] == usage(3, 15)
    assert chunks[-1]["usage"] == served.chat(n=3).json()["usage"]


@pytest.mark.parametrize("seed", [0, 7, -(2**63), 2**63 - 1])
def test_choice_zero_has_the_requests_seed_and_the_others_their_own(served: Served, seed: int) -> None:
    for n in (1, 4, 128):
        served.chat(seed=seed, n=n)
    seeds = [request.params.seed for request in served.engine.requests]
    one, four, many = seeds[:1], seeds[1:5], seeds[5:]
    assert one == [seed] and many[:4] == four and four[:1] == one
    assert len(set(many)) == 128 and all(found is not None and -(2**63) <= found < 2**63 for found in many)


def test_choices_without_a_seed_are_drawn_anew(served: Served) -> None:
    served.chat(n=2)
    assert [request.params.seed for request in served.engine.requests] == [None, None]


def test_an_echo_comes_first_and_its_first_token_has_no_log_probability(served: Served) -> None:
    [choice] = complete(served, prompt="one two", echo=True, logprobs=2, max_tokens=1)["choices"]
    assert choice["text"] == f"one two{FAKE_BASE}"
    assert choice["logprobs"] == {
        "tokens": ["one ", "two", FAKE_BASE],
        "token_logprobs": [None, -0.5, -0.5],
        "top_logprobs": [None, {"two": -0.5, "~1": -2.0}, {FAKE_BASE: -0.5, "~1": -2.0}],
        "text_offset": [0, 4, 7],
    }


@pytest.mark.parametrize("fields", [{}, {"logprobs": 1}, {"max_tokens": 0}, {"max_tokens": 0, "logprobs": 0, "n": 2}])
def test_a_streamed_echo_is_the_whole_one(served: Served, fields: dict[str, Any]) -> None:
    fields = {"prompt": ["one two", "three"], "echo": True, **fields}
    whole = complete(served, **fields)
    chunks = [chunk["choices"][0] for chunk in served.events(TEXT, **fields)]
    for choice in whole["choices"]:
        mine = [chunk for chunk in chunks if chunk["index"] == choice["index"]]
        assert "".join(chunk["text"] for chunk in mine) == choice["text"]
        assert [chunk["finish_reason"] for chunk in mine if chunk["finish_reason"]] == [choice["finish_reason"]]
        for field in choice["logprobs"] or {}:
            parts = [chunk["logprobs"][field] for chunk in mine if chunk["logprobs"]]
            assert [item for part in parts for item in part] == choice["logprobs"][field]


def test_an_echo_of_no_tokens_is_the_prompt(served: Served) -> None:
    answer = complete(served, prompt="one two", echo=True, max_tokens=0)
    [choice] = answer["choices"]
    assert (choice["text"], choice["finish_reason"], choice["logprobs"]) == ("one two", "length", None)
    assert answer["usage"] == usage(2, 0)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", [CHAT, TEXT])
def test_no_tokens_at_all_without_a_look_at_the_prompt_is_a_400(served: Served, path: str, stream: bool) -> None:
    error = refused(served, path, max_tokens=0, stream=stream)
    assert error["param"] == "max_tokens" and "echo" in error["message"]


def test_a_chat_is_not_echoed(served: Served) -> None:
    assert refused(served, CHAT, echo=True)["param"] == "echo"


def test_prompt_logprobs_have_vllms_shape_in_vllms_places(served: Served) -> None:
    want = [None, {"1": {"logprob": -0.5, "rank": 1, "decoded_token": "two"}}]
    answer = complete(served, prompt="one two", prompt_logprobs=0, n=2, max_tokens=1)
    assert [choice["prompt_logprobs"] for choice in answer["choices"]] == [want, want]
    assert "prompt_logprobs" not in answer
    chat = served.chat(messages=[{"role": "user", "content": "one two"}], prompt_logprobs=0).json()
    assert chat["prompt_logprobs"] == want and "prompt_logprobs" not in chat["choices"][0]
    [wider] = complete(served, prompt="one two", prompt_logprobs=2, max_tokens=0)["choices"]
    assert [entry["rank"] for entry in wider["prompt_logprobs"][1].values()] == [1, 2]


def test_prompt_logprobs_are_there_only_where_asked_for(served: Served) -> None:
    assert "prompt_logprobs" not in served.chat().json()
    assert "prompt_logprobs" not in complete(served, prompt="x", echo=True, logprobs=1)["choices"][0]

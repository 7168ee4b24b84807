"""The completions body: the four shapes of a prompt, and the limits."""

from __future__ import annotations

import json
from typing import Any

import pytest

from graftwork.errors import InvalidRequest
from graftwork.protocol.completions import CompletionRequest
from graftwork.protocol.prompts import OnePrompt


def read(**fields: Any) -> CompletionRequest:
    return CompletionRequest.read(json.dumps(fields).encode())


@pytest.mark.parametrize(
    ("prompt", "prompts"),
    [
        ("a", ("a",)),
        ([1, 2], ((1, 2),)),
        (["a", "b"], ("a", "b")),
        ([[1, 2], [3]], ((1, 2), (3,))),
    ],
)
def test_all_four_shapes_of_a_prompt(prompt: Any, prompts: tuple[OnePrompt, ...]) -> None:
    assert read(prompt=prompt).prompts == prompts


@pytest.mark.parametrize("prompt", [[], [[]], [1, "a"], ["a", [1]], [True], [-1], [2**31], [1.5], {}, None, 3])
def test_other_shapes_are_refused(prompt: Any) -> None:
    with pytest.raises(InvalidRequest) as raised:
        read(prompt=prompt)
    assert raised.value.field == "prompt"


def test_a_missing_prompt_is_named() -> None:
    with pytest.raises(InvalidRequest, match="prompt is required"):
        read(model="x")


def test_too_many_prompts_are_refused_with_the_limit() -> None:
    with pytest.raises(InvalidRequest, match="129 prompts; at most 128"):
        read(prompt=["a"] * 129)


def test_prompts_times_choices_have_a_limit() -> None:
    assert read(prompt=["a"] * 16, n=8).choices == 8
    with pytest.raises(InvalidRequest, match=r"16 prompts: 144 choices.*128") as raised:
        read(prompt=["a"] * 16, n=9)
    assert raised.value.field == "n"


def test_sixteen_tokens_by_default() -> None:
    assert (read(prompt="a").token_limit, read(prompt="a").usual_tokens) == (None, 16)


@pytest.mark.parametrize("logprobs", [-1, 6, True])
def test_logprobs_are_zero_to_five(logprobs: Any) -> None:
    with pytest.raises(InvalidRequest) as raised:
        read(prompt="a", logprobs=logprobs)
    assert raised.value.field == "logprobs"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("suffix", "x"),
        ("use_beam_search", True),
        ("lora_request", {"lora_name": "a"}),
    ],
)
def test_what_is_not_there_yet_is_named(field: str, value: Any) -> None:
    with pytest.raises(InvalidRequest, match=f"{field} is not supported yet"):
        read(prompt="a", **{field: value})

"""SamplingParams refuses what it cannot mean, and names the field."""

from __future__ import annotations

import math
from typing import Any

import pytest

from graftwork.engine.sampling_params import (
    MAX_LOGIT_BIAS,
    MAX_LOGPROBS,
    MAX_STOP_CHARS,
    MAX_STOP_STRINGS,
    SamplingParams,
)
from graftwork.errors import InvalidRequest

BAD: list[tuple[str, Any]] = [
    ("temperature", -0.1),
    ("temperature", math.nan),
    ("temperature", math.inf),
    ("temperature", 1e39),
    ("temperature", "hot"),
    ("temperature", True),
    ("temperature", None),
    ("top_p", -0.01),
    ("top_p", 1.01),
    ("top_p", math.nan),
    ("min_p", -0.01),
    ("min_p", 1.5),
    ("top_k", -2),
    ("top_k", 1.5),
    ("top_k", True),
    ("seed", 2**63),
    ("seed", -(2**63) - 1),
    ("seed", 0.5),
    ("max_tokens", 0),
    ("max_tokens", -1),
    ("max_tokens", 2**31),
    ("logprobs", -1),
    ("logprobs", MAX_LOGPROBS + 1),
    ("logprobs", True),
    ("presence_penalty", 2.1),
    ("frequency_penalty", -2.1),
    ("repetition_penalty", 0.0),
    ("repetition_penalty", -1.0),
    ("repetition_penalty", math.nan),
    ("repetition_penalty", 101.0),
    ("min_tokens", -1),
    ("min_tokens", True),
    ("prompt_logprobs", -1),
    ("prompt_logprobs", MAX_LOGPROBS + 1),
    ("echo", 1),
    ("logit_bias", {1: 5.0}),
    ("logit_bias", ((1,),)),
    ("logit_bias", ((-1, 5.0),)),
    ("logit_bias", (("1", 5.0),)),
    ("logit_bias", ((1, 100.5),)),
    ("logit_bias", ((1, math.nan),)),
    ("logit_bias", ((1, 1.0), (1, 2.0))),
    ("logit_bias", tuple((one, 1.0) for one in range(MAX_LOGIT_BIAS + 1))),
    ("ignore_eos", 1),
    ("stop", "END"),
    ("stop", ("",)),
    ("stop", (1,)),
    ("stop", ("x",) * (MAX_STOP_STRINGS + 1)),
    ("stop", ("x" * (MAX_STOP_CHARS + 1),)),
    ("stop_token_ids", (-1,)),
    ("stop_token_ids", ("2",)),
    ("stop_token_ids", 2),
]


@pytest.mark.parametrize(("field", "value"), BAD)
def test_bad_value_is_refused_and_names_its_field(field: str, value: Any) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        SamplingParams(**{field: value})
    assert refusal.value.field == field
    assert field in refusal.value.message or field == "stop"


def test_ends_of_every_range_are_accepted() -> None:
    SamplingParams(temperature=0, top_p=0.0, top_k=-1, min_p=1.0, seed=-(2**63), max_tokens=1, logprobs=0)
    SamplingParams(temperature=2.0, top_p=1, top_k=2**31 - 1, seed=2**63 - 1, logprobs=MAX_LOGPROBS)
    SamplingParams(presence_penalty=-2.0, frequency_penalty=2, repetition_penalty=0.01, stop=("x" * MAX_STOP_CHARS,))


def test_no_tokens_at_all_only_to_look_at_the_prompt() -> None:
    for asked in ({"echo": True}, {"prompt_logprobs": 0}):
        SamplingParams(max_tokens=0, **asked)
    with pytest.raises(InvalidRequest, match=r"max_tokens is 0.*echo"):
        SamplingParams(max_tokens=0, logprobs=1)


def test_more_tokens_at_least_than_at_most_are_refused() -> None:
    SamplingParams(min_tokens=5, max_tokens=5)
    SamplingParams(min_tokens=5)
    with pytest.raises(InvalidRequest) as refusal:
        SamplingParams(min_tokens=6, max_tokens=5)
    assert refusal.value.field == "min_tokens"


@pytest.mark.parametrize(
    ("asked", "alternatives"),
    [
        ({}, None),
        ({"logprobs": 3}, None),
        ({"echo": True}, None),
        ({"echo": True, "logprobs": 3}, 3),
        ({"prompt_logprobs": 0}, 0),
        ({"echo": True, "logprobs": 1, "prompt_logprobs": 4}, 4),
    ],
)
def test_prompts_are_rated_only_where_somebody_will_see_it(asked: dict[str, Any], alternatives: int | None) -> None:
    assert SamplingParams(**asked).prompt_alternatives == alternatives


def test_defaults_sample_from_the_model_as_it_is() -> None:
    params = SamplingParams()
    assert not params.greedy
    assert not params.penalised


@pytest.mark.parametrize("params", [SamplingParams(temperature=0), SamplingParams(top_k=1)])
def test_no_temperature_and_one_candidate_are_greedy(params: SamplingParams) -> None:
    assert params.greedy


@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(presence_penalty=0.5),
        SamplingParams(frequency_penalty=-0.5),
        SamplingParams(repetition_penalty=1.1),
    ],
)
def test_each_penalty_makes_a_row_penalised(params: SamplingParams) -> None:
    assert params.penalised

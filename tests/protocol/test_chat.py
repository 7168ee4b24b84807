"""The chat body: what is read, what is refused, and how it is said."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graftwork.errors import InvalidRequest
from graftwork.protocol.chat import ChatRequest
from graftwork.protocol.not_yet import NOT_YET_CHAT, NOT_YET_COMPLETIONS

HELLO: list[dict[str, Any]] = [{"role": "user", "content": "Hello"}]


def read(**fields: Any) -> ChatRequest:
    return ChatRequest.read(json.dumps({"messages": HELLO, **fields}).encode())


def refusal(**fields: Any) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as raised:
        read(**fields)
    return raised.value


def test_reads_a_plain_chat() -> None:
    body = read(model="sentiment", temperature=0, max_tokens=5, stop="\n", seed=-1)
    assert (body.model, body.temperature, body.token_limit, body.stop, body.seed) == (
        "sentiment",
        0.0,
        5,
        ["\n"],
        -1,
    )


def test_unknown_fields_are_ignored() -> None:
    assert read(store=True, user="u", service_tier="flex", madeup={"a": 1}).messages[0].content == "Hello"


def test_null_is_absent() -> None:
    body = read(temperature=None, n=None, tools=None, stop=None, stream=None, adapter_id=None, session_id=None)
    assert body.temperature is None and body.stop == []


def test_max_completion_tokens_wins() -> None:
    assert read(max_tokens=5, max_completion_tokens=7).token_limit == 7


def test_text_parts_become_one_text() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert read(messages=[{"role": "user", "content": parts}]).messages[0].content == "a\nb"


def test_developer_is_system_to_the_template() -> None:
    message = read(messages=[{"role": "developer", "content": "Be brief."}]).messages[0]
    assert message.for_template() == {"role": "system", "content": "Be brief."}


def test_logprobs_are_counted_as_alternatives() -> None:
    assert read().alternatives is None
    assert read(logprobs=True).alternatives == 0
    assert read(logprobs=True, top_logprobs=3).alternatives == 3


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"messages": []}, "messages"),
        ({"messages": "hi"}, "messages"),
        ({"messages": [{"role": "user"}]}, "messages.0.content"),
        ({"messages": [{"role": "user", "content": None}]}, "messages.0.content"),
        ({"messages": [{"role": "user", "content": []}]}, "messages.0.content"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages.0.content"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages.0.role"),
        ({"messages": [{"role": "king", "content": "x"}]}, "messages.0.role"),
        ({"messages": [{"role": "assistant", "content": "", "tool_calls": [{}]}]}, "messages.0.tool_calls"),
        ({"temperature": -0.1}, "temperature"),
        ({"temperature": 2.1}, "temperature"),
        ({"temperature": "1"}, "temperature"),
        ({"temperature": True}, "temperature"),
        ({"top_p": 0}, "top_p"),
        ({"top_p": 1.1}, "top_p"),
        ({"top_k": -2}, "top_k"),
        ({"min_p": 1.5}, "min_p"),
        ({"presence_penalty": 3}, "presence_penalty"),
        ({"frequency_penalty": -3}, "frequency_penalty"),
        ({"repetition_penalty": 0}, "repetition_penalty"),
        ({"seed": 2**63}, "seed"),
        ({"seed": 1.5}, "seed"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"max_tokens": 10**30}, "max_tokens"),
        ({"max_completion_tokens": 0}, "max_completion_tokens"),
        ({"stop": ""}, "stop"),
        ({"stop": [""]}, "stop"),
        ({"stop": 3}, "stop"),
        ({"logprobs": 2}, "logprobs"),
        ({"top_logprobs": 3}, "top_logprobs"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        ({"stream": "yes"}, "stream"),
        ({"stream_options": {"include_usage": 1}}, "stream_options.include_usage"),
        ({"adapter_id": 3}, "adapter_id"),
        ({"model": ["a"]}, "model"),
        ({"task": "classify"}, "task"),
        ({"adapters": ["a"]}, "adapters.0"),
        ({"adapters": {"ref": "a"}}, "adapters"),
        ({"adapters": [{"scale": 1}]}, "adapters.0.ref"),
        ({"adapters": [{"ref": "a"}, {"ref": "b", "scale": "1"}]}, "adapters.1.scale"),
        ({"adapters": [{"ref": "a", "scale": True}]}, "adapters.0.scale"),
        ({"adapters": [{"ref": "a", "scale": None}]}, "adapters.0.scale"),
        ({"adapters": [{"ref": "a", "scale": float("nan")}]}, "adapters.0.scale"),
        ({"adapters": [{"ref": "a", "scale": float("inf")}]}, "adapters.0.scale"),
        ({"adapters": [{"ref": "a", "weight": 1}]}, "adapters.0.weight"),
        ({"adapters": [{"ref": "a"}] * 9}, "adapters"),
        ({"locale": "de"}, "locale"),
        ({"session_id": "s"}, "session_id"),
        ({"n": 0}, "n"),
        ({"n": 129}, "n"),
        ({"n": True}, "n"),
        ({"n": 2, "best_of": 3}, "best_of"),
        ({"logit_bias": [[1, 5]]}, "logit_bias"),
        ({"logit_bias": {"a": 5}}, "logit_bias"),
        ({"logit_bias": {"-1": 5}}, "logit_bias"),
        ({"logit_bias": {"01": 5}}, "logit_bias"),
        ({"logit_bias": {"²": 5}}, "logit_bias"),
        ({"logit_bias": {"9" * 5000: 5}}, "logit_bias"),
        ({"logit_bias": {"1": 100.5}}, "logit_bias"),
        ({"logit_bias": {"1": True}}, "logit_bias"),
        ({"logit_bias": {"1": "5"}}, "logit_bias"),
        ({"logit_bias": {str(one): 1 for one in range(301)}}, "logit_bias"),
        ({"prompt_logprobs": -1}, "prompt_logprobs"),
        ({"prompt_logprobs": 21}, "prompt_logprobs"),
        ({"prompt_logprobs": 1, "stream": True}, "prompt_logprobs"),
        ({"min_tokens": -1}, "min_tokens"),
        ({"use_beam_search": True}, "use_beam_search"),
        ({"bad_words": ["x"]}, "bad_words"),
        ({"tools": [{}]}, "tools"),
        ({"tool_choice": "auto"}, "tool_choice"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {}}}}, "response_format"),
        ({"structured_outputs": {"regex": "a|b"}}, "structured_outputs"),
        *(({f"guided_{how}": "a"}, f"guided_{how}") for how in ("json", "regex", "choice", "grammar")),
        ({"prediction": {"type": "content", "content": "x"}}, "prediction"),
        ({"best_of": 2}, "best_of"),
        ({"echo": True}, "echo"),
    ],
)
def test_refuses_by_field(fields: dict[str, Any], field: str) -> None:
    error = refusal(**fields)
    assert error.field == field
    assert error.message.startswith(field)


def test_logit_bias_is_read_as_pairs() -> None:
    assert read(logit_bias={"5": -100, "0": 1.5}).logit_bias == ((5, -100.0), (0, 1.5))
    assert read(logit_bias=None).logit_bias == read(logit_bias={}).logit_bias == ()


def test_best_of_as_many_as_are_wanted_throws_nothing_away() -> None:
    assert (read(n=3, best_of=3).choices, read(best_of=1).choices, read(n=None).choices) == (3, 1, 1)


@pytest.mark.parametrize("not_yet", [NOT_YET_CHAT, NOT_YET_COMPLETIONS])
def test_values_that_ask_for_nothing_are_fine(not_yet: dict[str, tuple[Any, ...]]) -> None:
    read(**{field: harmless[0] for field, harmless in not_yet.items() if harmless and field in NOT_YET_CHAT})


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"null", b"3", b"\xff\xfe", b'{"messages": NaN}', b"[" * 5000])
def test_what_is_not_a_json_object_is_refused(raw: bytes) -> None:
    with pytest.raises(InvalidRequest):
        ChatRequest.read(raw)


def test_a_lone_surrogate_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="not JSON"):
        ChatRequest.read(b'{"messages": [{"role": "user", "content": "\\ud800"}]}')


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
FIELDS = sorted({*ChatRequest.model_fields, *NOT_YET_CHAT})


@given(st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=5))
def test_any_json_is_read_or_refused(fields: dict[str, Any]) -> None:
    raw = json.dumps({"messages": HELLO, **fields}).encode()
    try:
        ChatRequest.read(raw)
    except InvalidRequest as error:
        assert error.message


@given(st.binary(max_size=64))
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    with pytest.raises(InvalidRequest):
        ChatRequest.read(raw)

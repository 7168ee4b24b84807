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


CALL: dict[str, Any] = {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
LIST = {**CALL, "function": {"name": "f", "arguments": "[]"}}


def tool(name: str = "f", **more: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, **more}}


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
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages.0.tool_call_id"),
        ({"messages": [{"role": "tool", "content": None, "tool_call_id": "1"}]}, "messages.0.content"),
        ({"messages": [{"role": "function", "content": "x"}]}, "messages.0.role"),
        ({"messages": [{"role": "king", "content": "x"}]}, "messages.0.role"),
        ({"messages": [{"role": "assistant", "content": "", "tool_calls": [{}]}]}, "messages.0.tool_calls.0.id"),
        ({"messages": [{"role": "user", "content": "x", "tool_calls": [CALL]}]}, "messages.0.tool_calls"),
        ({"messages": [{"role": "assistant", "tool_calls": [LIST]}]}, "messages.0.tool_calls.0.function.arguments"),
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
        ({"task": ""}, "task"),
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
        ({"locale": "de_DE"}, "locale"),
        ({"session_id": "s" * 257}, "session_id"),
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
        ({"tools": [{}]}, "tools.0.type"),
        ({"tools": [{"type": "retrieval", "function": {"name": "f"}}]}, "tools.0.type"),
        ({"tools": [tool("a b")]}, "tools.0.function.name"),
        ({"tools": [tool(), tool()]}, "tools"),
        ({"tools": [tool(f"f{n}") for n in range(129)]}, "tools"),
        ({"tools": [tool()], "tool_choice": "maybe"}, "tool_choice"),
        ({"tools": [tool()], "tool_choice": 1}, "tool_choice"),
        ({"tools": [tool()], "tool_choice": tool("g")}, "tool_choice"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"functions": [{}]}, "functions"),
        ({"response_format": {"type": "xml"}}, "response_format.type"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
        ({"response_format": {"type": "json_schema", "json_schema": {"name": 1}}}, "response_format.json_schema.name"),
        ({"structured_outputs": {"regex": "a", "choice": ["b"]}}, "structured_outputs.choice"),
        ({"structured_outputs": {"structural_tag": "x"}}, "structured_outputs.structural_tag"),
        ({"structured_outputs": {"json": "{"}}, "structured_outputs.json"),
        ({"response_format": {"type": "json_object"}, "guided_regex": "a"}, "guided_regex"),
        ({"guided_choice": []}, "guided_choice"),
        ({"guided_json": [1]}, "guided_json"),
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


SCHEMA = {"type": "object", "properties": {"b": {}, "a": {}}}


@pytest.mark.parametrize(
    ("fields", "kind", "source"),
    [
        ({"response_format": {"type": "json_object"}}, "json", {"type": "object"}),
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}}, "json", SCHEMA),
        ({"structured_outputs": {"json": SCHEMA}}, "json", SCHEMA),
        ({"structured_outputs": {"json": json.dumps(SCHEMA)}}, "json", SCHEMA),
        ({"structured_outputs": {"json_object": True}}, "json", {"type": "object"}),
        ({"structured_outputs": {"choice": ["a", "b"]}}, "choice", ["a", "b"]),
        ({"guided_json": SCHEMA}, "json", SCHEMA),
        ({"guided_choice": ["a"]}, "choice", ["a"]),
    ],
)
def test_every_way_to_say_what_the_answer_must_be(fields: dict[str, Any], kind: str, source: object) -> None:
    form = read(**fields).form
    assert form is not None and form[0] == kind and form[2].partition(".")[0] in fields
    assert json.dumps(json.loads(form[1])) == json.dumps(source), "in the same order"


def test_patterns_and_grammars_are_taken_as_they_are() -> None:
    assert read(structured_outputs={"regex": "[0-9]"}).form == ("regex", "[0-9]", "structured_outputs.regex")
    assert read(guided_grammar='start: "a"').form == ("grammar", 'start: "a"', "guided_grammar")


@pytest.mark.parametrize("fields", [{}, {"response_format": {"type": "text"}}, {"structured_outputs": {}}])
def test_an_answer_may_be_anything(fields: dict[str, Any]) -> None:
    assert read(**fields).form is None


def test_calls_reach_the_template_with_their_arguments_as_objects() -> None:
    called = {"role": "assistant", "content": None, "tool_calls": [CALL]}
    answered = {"role": "tool", "tool_call_id": "1", "name": "f", "content": [{"type": "text", "text": "ok"}]}
    first, second = (one.for_template() for one in read(messages=[called, answered]).messages)
    assert first["content"] == "" and first["tool_calls"][0]["function"] == {"name": "f", "arguments": {"a": 1}}
    assert second == {"role": "tool", "content": "ok", "tool_call_id": "1", "name": "f"}


def test_only_what_is_known_of_a_tool_or_a_call_reaches_the_template() -> None:
    offered = {"type": "function", "x": 1, "function": {"name": "f", "strict": True, "y": {"deep": "prompt"}}}
    called = {"role": "assistant", "tool_calls": [{**CALL, "z": 1, "function": {**CALL["function"], "w": "prompt"}}]}
    body = read(tools=[offered], messages=[*HELLO, called])
    assert body.tools is not None
    want = {"name": "f", "description": "", "parameters": {}}
    assert body.tools[0].for_template() == {"type": "function", "function": want}
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": {"a": 1}}}
    assert body.messages[-1].for_template()["tool_calls"] == [call]


def test_what_may_and_what_must_be_called() -> None:
    tools = [tool("f"), tool("g", strict=True)]

    def names(choice: Any) -> tuple[list[str], list[str]]:
        body = read(tools=tools, tool_choice=choice)
        return [one.name for one in body.offered], [one.name for one in body.must_call]

    assert names(None) == names("auto") == (["f", "g"], [])
    assert names("none") == ([], [])
    assert names("required") == (["f", "g"], ["f", "g"])
    assert names(tool("g")) == (["f", "g"], ["g"])

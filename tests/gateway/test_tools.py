"""Tools at the chat door: what reaches the engine, and calls in OpenAI's shape, whole and streamed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from graftwork.engine.request import ChatPrompt
from graftwork.engine.tool_formats import ToolFormat
from graftwork.errors import InvalidRequest
from support.served import Served

WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "Of a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
STRICT = {"type": "function", "function": {**WEATHER["function"], "strict": True}}  # type: ignore[dict-item]
CALL = '<tool_call>{"name": "weather", "arguments": {"city": "Bern"}}</tool_call>'
#: The fake engine answers with what it was told.
SAYS = [{"role": "user", "content": f"{CALL}\n{CALL}"}]


def message(served: Served, **fields: Any) -> dict[str, Any]:
    response = served.chat(**{"messages": SAYS, "tools": [WEATHER], **fields})
    assert response.status_code == 200, response.text
    choice: dict[str, Any] = response.json()["choices"][0]
    return choice


def test_calls_are_no_content(served: Served) -> None:
    choice = message(served)
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["content"] == "fake-base says:"
    first, second = choice["message"]["tool_calls"]
    assert first["type"] == "function" and first["id"] != second["id"]
    assert first["function"] == {"name": "weather", "arguments": '{"city": "Bern"}'}


def test_streamed_calls_add_up_to_the_same(served: Served) -> None:
    whole = message(served)["message"]
    chunks = [chunk["choices"][0] for chunk in served.events(messages=SAYS, tools=[WEATHER])]
    assert "".join(chunk["delta"].get("content") or "" for chunk in chunks) == whole["content"]
    deltas = [one for chunk in chunks for one in chunk["delta"].get("tool_calls", ())]
    names = [one for one in deltas if "id" in one]
    assert [(one["index"], one["function"]["name"]) for one in names] == [(0, "weather"), (1, "weather")]
    for index, call in enumerate(whole["tool_calls"]):
        parts = [one["function"]["arguments"] for one in deltas if one["index"] == index]
        assert "".join(parts) == call["function"]["arguments"] and len(parts) > 1
    assert [chunk["finish_reason"] for chunk in chunks if chunk["finish_reason"]] == ["tool_calls"]
    assert chunks[-1]["finish_reason"] == "tool_calls"


def test_only_one_where_only_one_is_asked_for(served: Served) -> None:
    assert len(message(served, parallel_tool_calls=False)["message"]["tool_calls"]) == 1


def test_what_is_no_tool_is_content(served: Served) -> None:
    other = {"type": "function", "function": {"name": "other"}}
    for fields in ({"tools": [other]}, {"tools": None}, {"tool_choice": "none"}):
        choice = message(served, **fields)
        assert choice["finish_reason"] == "stop" and CALL in choice["message"]["content"]
        assert "tool_calls" not in choice["message"]


def test_an_answer_that_is_cut_ends_for_length(served: Served) -> None:
    choice = message(served, max_tokens=3)
    assert choice["finish_reason"] == "length"


def test_the_template_gets_tools_and_messages(served: Served) -> None:
    called = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Bern"}'}}
    message(served, messages=[
        {"role": "assistant", "content": None, "tool_calls": [called]},
        {"role": "tool", "tool_call_id": "c1", "content": "rain"},
    ])  # fmt: skip
    prompt = served.engine.requests[-1].prompt
    assert isinstance(prompt, ChatPrompt)
    assert prompt.tools == (WEATHER,)
    assert [one["role"] for one in prompt.messages] == ["assistant", "tool"]
    assert prompt.messages[0]["tool_calls"][0]["function"]["arguments"] == {"city": "Bern"}
    message(served, tool_choice="none")
    prompt = served.engine.requests[-1].prompt
    assert isinstance(prompt, ChatPrompt) and prompt.tools == ()


SCHEMA = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}}


@pytest.mark.parametrize(
    ("fields", "held"),
    [
        ({}, False),
        ({"tools": [STRICT]}, True),
        ({"tool_choice": "required"}, True),
        ({"tool_choice": WEATHER}, True),
        ({"response_format": SCHEMA}, True),
        ({"tools": [STRICT], "tool_choice": "none"}, False),
    ],
)
def test_an_answer_is_held_where_it_has_to_be(served: Served, fields: dict[str, Any], held: bool) -> None:
    message(served, **fields)
    grammar = served.engine.requests[-1].grammar
    assert (grammar is not None) == held
    assert grammar is None or (grammar.kind == "grammar" and "weather" in grammar.source and grammar.field == "tools")


def test_a_form_other_than_json_does_not_go_with_tools(served: Served) -> None:
    response = served.chat(tools=[WEATHER], structured_outputs={"regex": "a"})
    assert response.status_code == 400 and "structured_outputs.regex" in response.json()["error"]["message"]


def test_who_has_no_place_for_tools_says_so(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(*_: object, **__: object) -> ToolFormat:
        raise InvalidRequest("no place for tools", field="tools")

    monkeypatch.setattr(type(served.engine), "tool_format", refuse)
    assert served.chat(tools=[WEATHER]).json()["error"]["param"] == "tools"
    assert served.chat(tools=[WEATHER], tool_choice="none").status_code == 200


def test_the_client_has_calls_whole_and_streamed(served: Served) -> None:
    whole = served.client.chat(SAYS, tools=[WEATHER])
    with served.client.chat(SAYS, stream=True, tools=[WEATHER]) as stream:
        text = "".join(stream)
    assert text == whole.text == "fake-base says:" and whole.finish_reason == "tool_calls"
    for calls in (whole.tool_calls, stream.answer.tool_calls):
        assert [json.loads(one["function"]["arguments"]) for one in calls] == [{"city": "Bern"}] * 2


def test_what_the_answer_must_be_reaches_the_engine(served: Served) -> None:
    served.client.chat("hi", structured_outputs={"choice": ["yes", "no"]})
    served.client.complete("hi", structured_outputs={"regex": "[a-z]+"})
    chat, text = (one.grammar for one in served.engine.requests[-2:])
    assert chat is not None and (chat.kind, json.loads(chat.source)) == ("choice", ["yes", "no"])
    assert text is not None and (text.kind, text.source) == ("regex", "[a-z]+")
    served.chat(n=3, response_format={"type": "json_object"})
    grammars = [one.grammar for one in served.engine.requests[-3:]]
    assert grammars[0] is not None and grammars[0] == grammars[1] == grammars[2]

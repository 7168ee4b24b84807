"""Structured output and tools by the official openai client, from a real server process."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Literal

import openai
import pytest
from pydantic import BaseModel, ConfigDict

from graftwork.testing import write_lora

if TYPE_CHECKING:
    from pathlib import Path

    from e2e.conftest import Running

pytestmark = pytest.mark.e2e

HELLO: Any = [{"role": "user", "content": "Hello there"}]
TEMPLATE = (
    "{% if tools %}{{ tools | length }} tools: <tool_call>{% endif %}"
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% for c in m.tool_calls or [] %}"
    "<tool_call>{{ c.function | tojson }}</tool_call>{% endfor %}{% endfor %}<assistant>"
)


class Visit(BaseModel):
    model_config = ConfigDict(extra="forbid")

    city: Literal["Bern", "Rome"]
    days: Literal[1, 2, 3]
    friends: list[Literal["Ann", "Bob"]] | None


class Switch(BaseModel):
    model_config = ConfigDict(extra="forbid")

    on: bool


@pytest.fixture(scope="module")
def caller(running: Running, tmp_path_factory: pytest.TempPathFactory) -> str:
    """An adapter whose chat template has a place for tools."""
    folder: Path = write_lora(tmp_path_factory.mktemp("caller") / "a", running.outline, seed=7)
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    running.client.push(folder, "caller")
    return "caller"


@pytest.mark.parametrize("model", ["alpha", "tiny"])
def test_parse_gives_an_object_of_the_class(api: openai.OpenAI, model: str) -> None:
    for seed in range(4):
        made = api.chat.completions.parse(model=model, messages=HELLO, response_format=Visit, seed=seed, max_tokens=400)
        choice = made.choices[0]
        if choice.finish_reason == "stop":
            assert isinstance(choice.message.parsed, Visit)
            return
    pytest.fail("no answer of four was complete")


def test_a_schema_a_regex_and_free_text_at_once(api: openai.OpenAI) -> None:
    plate = api.completions.create(
        model="beta", prompt="x", max_tokens=20, extra_body={"structured_outputs": {"regex": "[A-Z]{2}-[0-9]{3}"}}
    )
    assert re.fullmatch("[A-Z]{2}-[0-9]{3}", plate.choices[0].text) and plate.choices[0].finish_reason == "stop"
    several = api.chat.completions.create(
        model="alpha", messages=HELLO, n=3, extra_body={"structured_outputs": {"choice": ["yes", "no"]}}
    )
    assert {choice.message.content for choice in several.choices} <= {"yes", "no"}
    with pytest.raises(openai.BadRequestError) as wrong:
        api.chat.completions.create(
            model="alpha",
            messages=HELLO,
            response_format={
                "type": "json_schema",
                "json_schema": {"name": "x", "schema": {"type": "object", "not": {"type": "null"}}},
            },
        )
    assert wrong.value.param == "response_format.json_schema.schema"


def test_required_and_named_calls_are_those_of_their_functions(api: openai.OpenAI, caller: str) -> None:
    tools: Any = [openai.pydantic_function_tool(Visit), openai.pydantic_function_tool(Switch)]
    made = api.chat.completions.parse(
        model=caller, messages=HELLO, tools=tools, tool_choice="required", parallel_tool_calls=False, seed=3
    )
    choice = made.choices[0]
    assert choice.finish_reason == "tool_calls" and choice.message.content is None
    assert choice.message.tool_calls is not None
    [call] = choice.message.tool_calls
    assert isinstance(call.function.parsed_arguments, Visit | Switch)
    named: Any = {"type": "function", "function": {"name": "Switch"}}
    with api.chat.completions.stream(
        model=caller, messages=HELLO, tools=tools, tool_choice=named, parallel_tool_calls=False
    ) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_completion().choices[0]
    assert "tool_calls.function.arguments.delta" in kinds and final.finish_reason == "tool_calls"
    assert final.message.tool_calls is not None
    assert isinstance(final.message.tool_calls[0].function.parsed_arguments, Switch)
    answered: Any = [
        *HELLO,
        choice.message.model_dump(exclude={"parsed", "refusal"}, exclude_none=True),
        {"role": "tool", "tool_call_id": call.id, "content": "done"},
    ]
    again = api.chat.completions.create(model=caller, messages=answered, tools=tools, max_tokens=3)
    assert again.usage is not None and made.usage is not None
    assert again.usage.prompt_tokens > made.usage.prompt_tokens


def test_a_template_without_tools_is_a_400(api: openai.OpenAI) -> None:
    tools: Any = [openai.pydantic_function_tool(Switch)]
    for model in ("tiny", "alpha"):
        with pytest.raises(openai.BadRequestError, match="no place for tools") as wrong:
            api.chat.completions.create(model=model, messages=HELLO, tools=tools)
        assert wrong.value.param == "tools"

"""Tools on a real engine: in every format a model of random weights makes valid calls, where it has to."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import jsonschema_rs
import pytest

from graftwork.engine.async_engine import AsyncEngine
from graftwork.engine.call_reader import CallReader
from graftwork.engine.grammar import Grammar
from graftwork.engine.request import ChatPrompt
from graftwork.engine.tool_formats import TOOL_FORMATS, Offered, format_of
from graftwork.errors import InvalidRequest
from support.engines import FolderSource, ask, ask_all, handle_of, prompt_of, request, running
from support.fixtures import Tiny

HERMES = (
    "{% if tools %}<tools>{{ tools | tojson }} answer by <tool_call>{% endif %}"
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}"
    "{% for c in m.tool_calls or [] %}<tool_call>{{ c.function.arguments | tojson }}</tool_call>{% endfor %}"
    "{% endfor %}"
)
UNKNOWN = "{{ tools }}{% for m in messages %}{{ m.content }}{% endfor %}"
LLAMA = (
    "{%- if not tools is defined %}{%- set tools = none %}{%- endif %}"
    "{%- if tools is not none %}<|python_tag|>{{ tools | tojson }}{% endif %}{{ messages[0].content }}"
)
CITY = {"type": "object", "properties": {"city": {"enum": ["Bern", "Rom"]}, "days": {"type": "integer", "maximum": 9,
        "minimum": 0}}, "required": ["city", "days"], "additionalProperties": False}  # fmt: skip
FLAG = {"type": "object", "properties": {"on": {"type": "boolean"}}, "required": ["on"], "additionalProperties": False}
OFFERED = (Offered("weather", CITY, strict=True), Offered("switch", FLAG, strict=True))
SCHEMAS = {"weather": CITY, "switch": FLAG}


@pytest.fixture(scope="module")
def root(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("callers")
    for name, template in (("hermes", HERMES), ("unknown", UNKNOWN), ("llama", LLAMA), ("plain", None)):
        shutil.copytree(tiny.adapter("a1"), root / name)
        if template is not None:
            (root / name / "chat_template.jinja").write_text(template)
    return root


@pytest.fixture(scope="module")
def engine(tiny: Tiny, root: Path) -> Iterator[AsyncEngine]:
    with asyncio.Runner() as runner:
        opened = running(tiny, FolderSource(root))
        yield runner.run(opened.__aenter__())
        runner.run(opened.__aexit__(None, None, None))


def calls_in(form: str, text: str) -> tuple[str, list[tuple[str, str]]]:
    content, calls = "", dict[int, tuple[str, str]]()
    for piece in CallReader(TOOL_FORMATS[form], SCHEMAS, several=True).push(text, end=True):
        if piece.call is None:
            content += piece.text
        else:
            name, arguments = calls.get(piece.call, (piece.name or "", ""))
            calls[piece.call] = (name, arguments + piece.text)
    return content, list(calls.values())


@pytest.mark.parametrize("form", TOOL_FORMATS)
async def test_who_must_call_calls_rightly(engine: AsyncEngine, form: str) -> None:
    one = TOOL_FORMATS[form].grammar(OFFERED, several=False)
    many = TOOL_FORMATS[form].grammar(OFFERED[:1], several=True)
    rows = [request(prompt_of(seed, 9), temperature=1.0, seed=seed, max_tokens=400, logprobs=None) for seed in range(8)]
    held = [replace(row, grammar=one if seed < 4 else many) for seed, row in enumerate(rows)]
    for seed, answer in enumerate(await ask_all(engine, held)):
        content, calls = calls_in(form, answer.text)
        assert not content.strip() or answer.finish_reason == "length", answer.text
        assert len(calls) == 1 if seed < 4 else calls
        for index, (name, arguments) in enumerate(calls):
            whole = answer.finish_reason == "stop" or index < len(calls) - 1
            assert not whole or jsonschema_rs.is_valid(SCHEMAS[name], json.loads(arguments)), answer.text
        assert seed >= 4 or answer.finish_reason == "stop"


@pytest.mark.parametrize("form", TOOL_FORMATS)
async def test_who_may_call_calls_strict_functions_rightly_or_talks(engine: AsyncEngine, form: str) -> None:
    """Whether it talks or calls is the model's own; a bias moves it here."""
    free = TOOL_FORMATS[form].free_grammar(OFFERED, several=True, content=None)
    opens = {"hermes": "<tool_call>\n", "llama3": "{", "mistral": "["}[form]
    talk = request(prompt_of(1, 9), temperature=1.0, seed=1, max_tokens=30, logprobs=None, logit_bias=((70, 100.0),))
    row = request(prompt_of(1, 9), temperature=1.0, seed=1, max_tokens=300, logprobs=None)
    text = (await ask(engine, replace(talk, grammar=free))).text
    assert set(text[1:20]) == set("g") and calls_in(form, text)[1] == []
    begun = Grammar("grammar", f"start: {json.dumps(opens)}")
    assert (await ask(engine, replace(row, grammar=begun))).text == opens
    from graftwork.engine.grammars import Grammars  # the same engine's

    grammars: Grammars = engine._intake._grammars
    words = engine._intake._text
    assert free is not None
    place = await grammars.row(free, words, "local")
    for token_id in words.plain_ids(opens + '{"name": "switch", "'[len(opens) if opens == "{" else 0 :]):
        assert not place.take(token_id) and place.problem is None


async def test_a_schema_for_what_is_said_goes_with_tools(engine: AsyncEngine) -> None:
    content = Grammar("json", json.dumps(FLAG))
    for form in TOOL_FORMATS.values():
        held = form.free_grammar(OFFERED, several=True, content=content)
        rows = [replace(request(prompt_of(n, 9), temperature=1.0, seed=n, max_tokens=200, logprobs=None), grammar=held)
                for n in range(6)]  # fmt: skip
        for answer in await ask_all(engine, rows):
            said, calls = calls_in(form.name, answer.text)
            assert answer.finish_reason == "length" or bool(calls) != jsonschema_rs.is_valid(
                FLAG, json.loads(said or "null")
            )
    assert TOOL_FORMATS["hermes"].free_grammar((Offered("f", {}, strict=False),), several=True, content=None) is None


async def test_the_template_tells_the_model_of_tools_and_says_how_it_calls(engine: AsyncEngine) -> None:
    assert (await engine.tool_format(handle_of("hermes"), own=True)).name == "hermes"
    assert (await engine.tool_format(handle_of("llama"), own=True)).name == "llama3"
    for named, own in ((None, True), ("plain", True), ("hermes", False)):
        with pytest.raises(InvalidRequest, match="no place for tools") as caught:
            await engine.tool_format(handle_of(named), own=own)
        assert caught.value.field == "tools"
    with pytest.raises(InvalidRequest, match="none of the signs"):
        await engine.tool_format(handle_of("unknown"), own=True)
    assert format_of(UNKNOWN, "mistral").name == "mistral"
    hello = ({"role": "user", "content": "Hi"},)
    tools = ({"type": "function", "function": {"name": "f", "description": "", "parameters": {}}},)
    short, long = await ask_all(
        engine, [request(ChatPrompt(hello), "hermes"), request(ChatPrompt(hello, tools), "hermes")]
    )
    rendered = f"<tools>{json.dumps(list(tools))} answer by <tool_call><user>Hi"
    assert (short.prompt_tokens, long.prompt_tokens) == (len("<user>Hi"), len(rendered))

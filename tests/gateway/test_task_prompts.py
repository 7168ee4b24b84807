"""Templates of tasks: filled as jinja fills them, in processes with limits, and words need none."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from graftwork.engine.grammar import Grammar
from graftwork.engine.limited_process import ProcessLimits
from graftwork.engine.request import ChatPrompt
from graftwork.errors import InvalidRequest, Unavailable
from graftwork.gateway.task_prompts import TaskForms, TaskPrompts
from graftwork.protocol.tasks import PromptMessage, PromptPart, TaskSpec

HANGS = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}{{ text }}"


def plain(template: str) -> TaskSpec:
    return TaskSpec(prompt=PromptPart(text=template))


@pytest.fixture
async def prompts() -> AsyncIterator[TaskPrompts]:
    made = TaskPrompts(ProcessLimits(time_s=0.5))
    yield made
    await asyncio.to_thread(made.close)


async def test_what_is_only_words_or_the_text_starts_no_process(prompts: TaskPrompts) -> None:
    text: dict[str, Any] = {"text": "{{ not a template }}"}
    assert await prompts.fill(TaskSpec(), text, "a") == ChatPrompt(({"role": "user", "content": text["text"]},))
    assert await prompts.fill(plain("{{text}}"), text, "a") == text["text"]
    assert await prompts.fill(plain("Say it.\n"), text, "a") == "Say it."
    assert prompts._processes._processes == []


async def test_messages_are_filled_in_one_go_and_values_are_never_templates(prompts: TaskPrompts) -> None:
    messages = [
        PromptMessage(role="system", content="Be brief."),
        PromptMessage(role="user", content="In {{ words }} words: {{ text | trim }}"),
        PromptMessage(role="assistant", content="{% if dry %}Well,{% endif %}"),
    ]
    spec = TaskSpec(prompt=PromptPart(messages=messages))
    made = await prompts.fill(spec, {"text": " {{ 7 * 7 }} ", "words": 9, "dry": True}, "a")
    assert isinstance(made, ChatPrompt)
    assert [(one["role"], one["content"]) for one in made.messages] == [
        ("system", "Be brief."),
        ("user", "In 9 words: {{ 7 * 7 }}"),
        ("assistant", "Well,"),
    ]


@pytest.mark.parametrize(
    ("template", "said"),
    [
        (HANGS, "took more than 0.5 s"),
        ("{% for a in range(99999) %}{{ text * 99 }}{% endfor %}", "refused the input: its text has more than"),
        ("{{ text.__class__.__mro__ }}", "refused the input: access to attribute"),
        ("{{ raise_exception('too short') }}", "refused the input: too short"),
    ],
)
async def test_a_template_out_of_bounds_fails_its_input_only(prompts: TaskPrompts, template: str, said: str) -> None:
    bad = prompts.fill(plain(template), {"text": "x" * 99}, "a")
    good = prompts.fill(plain("<{{ text }}>"), {"text": "b"}, "b")
    failed, filled = await asyncio.gather(bad, good, return_exceptions=True)
    assert filled == "<b>"
    assert isinstance(failed, InvalidRequest) and said in failed.message
    assert failed.field == "text"


async def test_a_closed_one_says_so_to_whoever_waits() -> None:
    prompts = TaskPrompts(ProcessLimits(time_s=30.0))
    waiting = [asyncio.ensure_future(prompts.fill(plain(HANGS), {"text": "x"}, "a")) for _ in range(4)]
    await asyncio.sleep(0)
    await asyncio.to_thread(prompts.close)
    for one in await asyncio.gather(*waiting, return_exceptions=True):
        assert isinstance(one, Unavailable)
    with pytest.raises(Unavailable):
        await prompts.fill(plain(HANGS), {"text": "x"}, "a")


@pytest.mark.parametrize(
    ("grammar", "good"),
    [
        (Grammar("json", '{"type": "object"}', "here"), True),
        (Grammar("choice", '["a", "b"]', "here"), True),
        (Grammar("json", '{"type": "object", "not": {"type": "null"}}', "here"), False),
        (Grammar("regex", "(", "here"), False),
    ],
)
async def test_a_form_that_no_answer_can_be_held_to_is_told_before(grammar: Grammar, good: bool) -> None:
    forms = TaskForms(ProcessLimits())
    try:
        if good:
            await forms.check(grammar, "a")
        else:
            with pytest.raises(InvalidRequest, match="here cannot be used: ") as wrong:
                await forms.check(grammar, "a")
            assert wrong.value.field == "here"
    finally:
        await asyncio.to_thread(forms.close)

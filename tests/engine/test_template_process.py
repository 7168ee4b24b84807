"""Chat templates of strangers: rendered as transformers renders them, or stopped, within a time and a size."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Iterator
from concurrent.futures import wait
from pathlib import Path
from typing import Any

import pytest

from graftwork.engine.limited_process import ProcessLimits
from graftwork.engine.template_process import TemplateProcess
from graftwork.engine.templates import Templates
from graftwork.errors import InvalidRequest, Unavailable
from support.tiny import byte_tokenizer

CHATML = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n' }}{% endif %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
LLAMA = """{%- if not date_string is defined %}
    {%- set date_string = strftime_now("%d %b %Y") %}
{%- endif %}
{{- bos_token }}
{%- set loop_messages = messages %}
{%- for message in loop_messages %}
    {%- set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' + message['content'] | trim %}
    {{- content + '<|eot_id|>' }}
{%- endfor %}
{%- if tools is not none %}{{ tools | tojson(indent=4) }}{% endif %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\n\n' + date_string }}
{%- endif %}
"""
MISTRAL = """{{ bos_token }}{% for message in messages %}
  {% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}
    {{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}
  {% endif %}
  {% if message['role'] == 'user' %}
[INST] {{ message['content'] }} [/INST]
  {% elif message['role'] == 'assistant' %}{% generation %}
{{ message['content'] + eos_token }}{% endgeneration %}
  {% endif %}
{% endfor %}"""
QWEN = """{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step_tool and message.role == "user" and not(message.content.startswith('<tool_response>')) %}
        {%- set ns.multi_step_tool = false %}{%- set ns.last_query_index = index %}{% break %}
    {%- endif %}
{%- endfor %}
{%- macro show(message) -%}{{ message | tojson }}{% if loop is defined %}never{% endif %}{%- endmacro -%}
{%- for message in messages %}
{{ loop.index }}/{{ ns.last_query_index }} {{ show(message) }} {{ dict(role=message.role) }}
{% if message.content is not string %}{% continue %}{% endif %}
{%- endfor %}
"""
REAL = {"ChatML": CHATML, "Llama": LLAMA, "Mistral": MISTRAL, "Qwen": QWEN}
TALK = [
    {"role": "user", "content": "  Hé, <b>\"quotes\"</b> & 'more' 🙂\n"},
    {"role": "assistant", "content": "Ja."},
    {"role": "user", "content": "And\ttabs?"},
]

LOOP = "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"
STOPPED = "was stopped|memory"
QUICK = ProcessLimits(time_s=0.5)


@pytest.fixture
def templates() -> Iterator[Templates]:
    made = Templates(QUICK)
    yield made
    made.close()


def render(source: str, messages: Any = TALK, limits: ProcessLimits = ProcessLimits(20.0), **more: Any) -> str:  # noqa: B008
    process = TemplateProcess(source, limits)
    fields = {"messages": messages, "tools": None, "documents": None, "add_generation_prompt": True, **more}
    try:
        return process.render(fields, 100_000)
    finally:
        process.kill()


@pytest.mark.parametrize("name", REAL)
def test_renders_as_transformers_does(name: str) -> None:
    tokenizer = byte_tokenizer()
    tokenizer.bos_token, tokenizer.chat_template = "<s>", REAL[name]
    want = tokenizer.apply_chat_template(TALK, tokenize=False, add_generation_prompt=True)
    assert render(REAL[name], **tokenizer.special_tokens_map) == want


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (LOOP, STOPPED),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "without end"),
        ("{{ 'a' * 10 ** 10 }}", STOPPED),
        ("{% set ns = namespace(x='a') %}{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}", STOPPED),
        ("{% for i in range(90000) %}{{ 'aaaaaaaaaa' }}{% endfor %}", "more than 100000 characters"),
        ("{{ range(10 ** 9) }}", "Range too big"),
        ("{{ 9 ** (9 ** 9) }}", STOPPED),
        ("{{ messages.__class__.__mro__ }}", "unsafe"),
        ("{{ ''.__class__.__base__.__subclasses__() }}", "unsafe"),
        ("{{ raise_exception.__globals__.os }}", "unsafe"),
        ("{{ cycler.__init__.__globals__.os.popen('id').read() }}", "unsafe"),
        ("{{ '{0.__class__.__mro__}'.format(messages) }}", "unsafe"),
        ("{{ namespace(__class__=1) }}", "underscore"),
        ("{{ messages.append(1) }}", "unsafe"),
        ("{{ messages[0].update(x=1) }}", "unsafe"),
        ("{% include 'x' %}", "no loader"),
        ("{{ raise_exception('only cats may speak') }}", "only cats may speak"),
        ("{{ raise_exception('x' * 10000) }}", "xxx"),
        ("{{ nothing.at.all }}", "undefined"),
        ("{{ 1 / 0 }}", "division"),
    ],
)
def test_what_a_template_may_not_do_is_said_and_soon(source: str, words: str) -> None:
    began = time.monotonic()
    with pytest.raises(InvalidRequest) as caught:
        render(source, limits=QUICK)
    assert re.search(words, caught.value.message) and caught.value.field == "messages"
    assert len(caught.value.message) < 700
    assert time.monotonic() - began < 20


def test_a_process_that_was_stopped_starts_again() -> None:
    source = "{% if messages[0].content == 'loop' %}" + LOOP + "{% endif %}fine"
    process = TemplateProcess(source, QUICK)
    try:
        for _ in range(2):
            with pytest.raises(InvalidRequest, match=r"0\.5 s"):
                process.render({"messages": [{"content": "loop"}]}, 100)
            assert process.render({"messages": [{"content": "x"}]}, 100) == "fine"
    finally:
        process.kill()


def test_a_process_that_died_by_itself_starts_again_and_nobody_is_blamed() -> None:
    process = TemplateProcess("fine", ProcessLimits(20.0))
    try:
        assert process.render({}, 10) == "fine"
        child = process._process
        assert child is not None
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # until it is dead, and left for its owner to find
        assert process.render({}, 10) == "fine"
    finally:
        process.kill()


def test_it_sees_no_environment_and_no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_OF_MINE", "x")
    process = TemplateProcess("x", ProcessLimits())
    assert process.render({}, 10) == "x"
    child = Path(f"/proc/{process._process.pid}")  # type: ignore[union-attr]
    assert b"SECRET_OF_MINE" not in (child / "environ").read_bytes()
    assert (child / "cwd").readlink() == Path("/")
    process.kill()
    assert not child.exists()


def test_large_conversations_pass_through() -> None:
    messages = [{"role": "user", "content": "é" * 200_000}]
    process = TemplateProcess("{{ messages[0].content }}", ProcessLimits(20.0))
    try:
        assert process.render({"messages": messages}, 200_000) == "é" * 200_000
    finally:
        process.kill()


def test_a_template_that_hangs_delays_no_other(templates: Templates) -> None:
    fast = templates.submit("quick", lambda process: process.render({}, 10))
    wait([fast])
    stuck = [templates.submit(LOOP, lambda process: process.render({}, 10)) for _ in range(4)]
    for _ in range(20):
        assert templates.submit("quick", lambda process: process.render({}, 10)).result(20) == "quick"
    assert not all(future.done() for future in stuck)


def test_of_many_templates_the_oldest_process_ends() -> None:
    templates = Templates(ProcessLimits(20.0), most=2)
    pids = [
        templates.submit(name, lambda process: (process.render({}, 10), process._process.pid)).result(60)[1]  # type: ignore[union-attr]
        for name in ("a", "b", "c")
    ]
    deadline = time.monotonic() + 20
    while Path(f"/proc/{pids[0]}").exists():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert all(Path(f"/proc/{pid}").exists() for pid in pids[1:])
    assert templates.submit("a", lambda process: process.render({}, 10)).result(60) == "a"
    templates.close()
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
    with pytest.raises(Unavailable):
        templates.submit("a", lambda process: process.render({}, 10))


def test_of_many_templates_at_once_only_so_many_have_a_process() -> None:
    templates, lock = Templates(ProcessLimits(20.0), most=1), threading.Lock()
    at_work: list[int] = []
    most = 0

    def call(process: TemplateProcess) -> str:
        nonlocal most
        with lock:
            at_work.append(1)
            most = max(most, len(at_work))
        made = process.render({}, 10)
        with lock:
            at_work.pop()
        return made

    made = [templates.submit(str(number), call) for number in range(6)]
    assert [future.result(60) for future in made] == [str(number) for number in range(6)]
    assert most <= 2
    templates.close()


def test_closing_ends_a_template_that_hangs_and_leaves_no_zombie() -> None:
    templates = Templates(ProcessLimits(60.0))
    process = templates.submit(LOOP, lambda process: process).result(20)
    hanging = templates.submit(LOOP, lambda process: process.render({}, 10))
    while (child := process._process) is None:
        time.sleep(0.001)  # until it has started
    templates.close()
    assert isinstance(hanging.exception(20), Unavailable)
    assert not Path(f"/proc/{child.pid}").exists()

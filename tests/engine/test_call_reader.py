"""Calls of tools are found in a text, however it is cut into pieces, and nothing else is."""

from __future__ import annotations

import json
import time
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graftwork.engine.call_reader import CallReader
from graftwork.engine.tool_formats import TOOL_FORMATS

NAMES = ("get_weather", "f")

ONE, TWO = '{"name": "f", "arguments": {"a": "}\\"{", "b": [1, {}]}}', '{"name": "get_weather", "arguments": {}}'
LLAMA = [one.replace("arguments", "parameters") for one in (ONE, TWO)]
A = {"name": "f", "arguments": {"a": '}"{', "b": [1, {}]}}
B: dict[str, Any] = {"name": "get_weather", "arguments": {}}

#: Format, text, what of it is content (… is all), what is called.
CASES: list[tuple[str, str, Any, list[dict[str, Any]]]] = [
    ("hermes", f"<tool_call>\n{ONE}\n</tool_call>", "", [A]),
    ("hermes", f"Let me see.\n<tool_call>\n{ONE}\n</tool_call>\n<tool_call>{TWO}</tool_call>\n", "Let me see.", [A, B]),
    ("hermes", f"<tool_call>{ONE}</tool_call> Done. <tool_call>{TWO}</tool_call>", "Done.", [A, B]),
    ("hermes", f"<tool_call>{ONE}", "", [A]),
    ("hermes", "No call <tool_calls> { <tool_call> x", "No call <tool_calls> { <tool_call> x", []),
    ("hermes", '<tool_call>{"name": "unknown", "arguments": {}}</tool_call>', ..., []),
    ("hermes", '<tool_call>{"arguments": {}, "name": "get_weather"}</tool_call>', "", [B]),
    ("hermes", '<tool_call>{"name": "f"}</tool_call>', "", [{"name": "f", "arguments": {}}]),
    ("hermes", "<tool_call>{not JSON}</tool_call> and more", ..., []),
    ("hermes", '<tool_call>{"name": "f"', ..., []),
    ("hermes", "just text <tool", "just text <tool", []),
    ("hermes", f"<tool_call>{ONE}\n</tool_call>\n<tool_ca", "<tool_ca", [A]),
    ("hermes", " " * 3000 + "x", ..., []),
    ("llama3", " " * 3000 + "x", ..., []),
    ("mistral", " " * 3000 + "[1", ..., []),
    ("llama3", LLAMA[0], "", [A]),
    ("llama3", f"<|python_tag|>{LLAMA[0]}; {LLAMA[1]}", "", [A, B]),
    ("llama3", f"Text, then {LLAMA[0]}", ..., []),
    ("llama3", '{"answer": 3}', '{"answer": 3}', []),
    ("llama3", f"{LLAMA[0]} and so on", "and so on", [A]),
    ("mistral", f"[TOOL_CALLS] [{ONE}, {TWO}]", "", [A, B]),
    ("mistral", f"[{ONE}]", "", [A]),
    ("mistral", "[1, 2]", "[1, 2]", []),
    ("mistral", "Hello [TOOL_CALLS]", "Hello [TOOL_CALLS]", []),
]  # fmt: skip


def read(form: str, pieces: list[str], *, several: bool = True) -> tuple[str, list[dict[str, Any]]]:
    reader = CallReader(TOOL_FORMATS[form], NAMES, several=several)
    content = ""
    calls: list[dict[str, Any]] = []
    for place, piece in enumerate(pieces):
        for found in reader.push(piece, end=place == len(pieces) - 1):
            if found.call is None:
                content += found.text
            elif found.name is not None:
                assert found.call == len(calls) and found.id
                calls.append({"name": found.name, "arguments": found.text})
            else:
                assert found.call == len(calls) - 1
                calls[-1]["arguments"] += found.text
    return content, [{**call, "arguments": json.loads(call["arguments"])} for call in calls]


@pytest.mark.parametrize(("form", "text", "content", "calls"), CASES)
def test_whole_and_letter_by_letter(form: str, text: str, content: Any, calls: list[dict[str, Any]]) -> None:
    want = (text if content is ... else content, calls)
    assert read(form, [text]) == want
    assert read(form, list(text)) == want


@given(st.sampled_from(CASES), st.lists(st.integers(0, 120), max_size=6))
def test_however_it_is_cut(case: tuple[str, str, Any, Any], cuts: list[int]) -> None:
    form, text, content, calls = case
    ends = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    pieces = [text[begin:end] for begin, end in pairwise(ends)]
    assert read(form, pieces) == (text if content is ... else content, calls)


@given(st.sampled_from(sorted(TOOL_FORMATS)), st.text(alphabet='<tool_ca/>{}[]",:; name\n\\', max_size=60))
def test_any_text_is_content_and_no_letter_of_it_is_lost(form: str, text: str) -> None:
    content, calls = read(form, list(text) or [""])
    assert not calls and content == text


def test_arguments_come_as_they_are_written_and_the_name_before_them() -> None:
    reader = CallReader(TOOL_FORMATS["hermes"], NAMES, several=True)
    assert reader.push("Yes <tool_ca", end=False)[0].text == "Yes"
    assert reader.push('ll>\n{"name": "f", "argu', end=False) == []
    first, second = reader.push('ments": {"a": ', end=False)
    assert (first.name, first.call, first.text) == ("f", 0, "") and second.text == '{"a": '
    assert [one.text for one in reader.push("1}}\n</tool", end=False)] == ["1}"]
    assert reader.push("_call>", end=True) == []


def test_only_the_first_of_several_is_told_where_one_is_asked_for() -> None:
    for form, text, content, calls in CASES:
        if len(calls) > 1:
            assert read(form, [text], several=False) == (content, calls[:1])


def test_half_a_surrogate_pair_in_arguments_is_no_text() -> None:
    text = '<tool_call>{"arguments": "\\ud800", "name": "f"}</tool_call>'
    [piece] = CallReader(TOOL_FORMATS["hermes"], NAMES, several=True).push(text, end=True)
    assert piece.text.encode() == b"?"


@pytest.mark.parametrize("form", sorted(TOOL_FORMATS))
def test_white_space_is_not_searched_again_with_each_of_its_letters(form: str) -> None:
    reader, began = CallReader(TOOL_FORMATS[form], NAMES, several=True), time.process_time()
    told = "".join(piece.text for _ in range(4000) for piece in reader.push(" " * 32, end=False))
    told += "".join(piece.text for piece in reader.push("x", end=True))
    assert told == " " * 128_000 + "x"
    assert time.process_time() - began < 5.0, "a bound against minutes, not a benchmark"

"""Results of tasks: a value of the promised type, or an error that has what the model said."""

from __future__ import annotations

from typing import Any

import pytest

from graftwork.errors import UnreadableAnswer
from graftwork.protocol.tasks import OutputPart
from graftwork.traffic.tasks.result import code_in, result_of

LABEL = OutputPart(type="label", choices=["yes", "no", "note"])
JSON = OutputPart.model_validate({"type": "json", "schema": {"type": "object"}})
REGEX = OutputPart(type="regex", pattern="[0-9]+")


@pytest.mark.parametrize(
    ("output", "text", "result"),
    [
        (OutputPart(), " two words\n", "two words"),
        (LABEL, "no", "no"),
        (JSON, '{"a": [1, null, 0.5]}', {"a": [1, None, 0.5]}),
        (REGEX, "42", "42"),
        (OutputPart(type="code"), "```python\nx = 1\n```", "x = 1"),
    ],
)
def test_an_answer_is_a_value_of_its_type(output: OutputPart, text: str, result: Any) -> None:
    assert result_of(output, text, "stop") == result


@pytest.mark.parametrize(
    ("output", "text", "finish", "said"),
    [
        (LABEL, "maybe", "stop", "The answer is not one of yes, no, note."),
        (LABEL, "no", "length", "The answer was cut off before it was a whole label"),  # it may have begun "note"
        (REGEX, "42", "length", "The answer was cut off before it was a whole regex"),
        (JSON, '{"a": 1', "length", "The answer was cut off before it was a whole json"),
        (JSON, "Sure! {}", "stop", "The answer is not JSON"),
        (JSON, '{"a": NaN}', "stop", "The answer is not JSON"),
        (JSON, "[" * 100_000, "stop", "The answer is not JSON"),
    ],
)
def test_what_is_not_of_the_type_is_told_with_the_answer(output: OutputPart, text: str, finish: str, said: str) -> None:
    with pytest.raises(UnreadableAnswer, match="^" + said) as wrong:
        result_of(output, text, finish)
    assert wrong.value.text == text


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("def f(): pass\n", "def f(): pass"),
        ("Here:\n```python\ndef f():\n    pass\n```\nand\n```\nno\n```", "def f():\n    pass"),
        ("```\n  x = 1\n", "  x = 1"),
        ("````", "````"),
        ("", ""),
    ],
)
def test_code_is_the_first_fenced_block_or_all(text: str, code: str) -> None:
    assert code_in(text) == code

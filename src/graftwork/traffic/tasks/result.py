"""result_of: what an answer has to be, and what it means, as a value of the type that the task promises."""

from __future__ import annotations

import json
from typing import Any, NoReturn

from graftwork.engine.grammar import Grammar
from graftwork.errors import UnreadableAnswer
from graftwork.protocol.tasks import OutputPart

FENCE = "```"


def result_of(output: OutputPart, text: str, finish_reason: str | None) -> Any:
    """The text without blanks around it, one of the choices, a JSON value, what matched, or the code.

    NOTE: what a choice, a schema or a pattern allows is the grammar's to see to: the model could say nothing else, so
    that an answer which ended by itself is whole. One that was cut off is none, even where it looks like one.

    Raises:
        UnreadableAnswer: it is not what the task promises.
    """
    if output.type == "text":
        return text.strip()
    if output.type == "code":
        return code_in(text)
    if finish_reason != "stop":
        raise UnreadableAnswer(
            f"The answer was cut off before it was a whole {output.type}; the task's maxTokens may be too small.",
            text=text,
        )
    if output.type == "label" and text not in (output.choices or ()):
        raise UnreadableAnswer(f"The answer is not one of {', '.join(output.choices or ())}.", text=text)
    return _json(text) if output.type == "json" else text


def grammar_of(output: OutputPart) -> Grammar | None:
    """What the model may say at all; None: anything."""
    match output.type:
        case "label":
            return Grammar("choice", json.dumps(output.choices), "spec.output.choices")
        case "json":
            return Grammar("json", json.dumps(output.schema_), "spec.output.schema")
        case "regex":
            assert output.pattern is not None, "it was checked when the task was set"
            return Grammar("regex", output.pattern, "spec.output.pattern")
        case _:
            return None


def code_in(text: str) -> str:
    """The first fenced block of a text, without its fence; else all of it. One that is not closed goes to the end."""
    _, fence, after = text.partition(FENCE)
    if not fence or "\n" not in after:
        return text.strip()
    return after.partition("\n")[2].partition(FENCE)[0].strip("\n")


def _json(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise UnreadableAnswer(f"The answer is not JSON: {error}.", text=text) from error


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")

"""Arguments of documents: `{{args.NAME}}` in a text stands for a value that is given where the document is used; pure.

A value is a text, as in Argo Workflows and Rollouts; a number is taken for its text. What comes of a text is not read
for arguments again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, JsonValue, WithJsonSchema, model_validator

from graftwork.protocol.answers import Shape
from graftwork.protocol.resource import Resource

MAX_ARGS = 32
MAX_VALUE = 256
#: Characters of a text that holds arguments.
MAX_TEXT = 1024
NAME: Final = r"[A-Za-z0-9_-]+"
_BRACES: Final = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
_ARGUMENT: Final = re.compile(rf"\s*args\.({NAME})\s*", re.ASCII)
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?", re.ASCII)
#: How a text with an argument looks, for JSON Schemas.
_TEXT: Final = {"type": "string", "pattern": rf"\{{\{{\s*args\.{NAME}\s*\}}\}}"}

#: The way to a value in a document.
Place = tuple[str | int, ...]


def _as_text(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError("must be a text or a number")
    if isinstance(value, float) and value.is_integer() and abs(value) < 1 << 53:
        return str(int(value))
    return str(value)


def _closed(text: str) -> str:
    if "{{" in text or "}}" in text:
        raise ValueError("is a value, and holds no {{ and }}")
    return text


_VALUE_SCHEMA: Final = {"anyOf": [{"type": "string", "maxLength": MAX_VALUE}, {"type": "number"}]}
ValueText = Annotated[
    str, Field(max_length=MAX_VALUE), BeforeValidator(_as_text), AfterValidator(_closed), WithJsonSchema(_VALUE_SCHEMA)
]
ArgumentName = Annotated[str, Field(min_length=1, max_length=128, pattern=rf"^{NAME}$")]


class _Argument(Resource):
    name: ArgumentName

    @model_validator(mode="before")
    @classmethod
    def _said(cls, value: Any) -> Any:
        if isinstance(value, Mapping) and "valueFrom" in value:
            raise ValueError("has valueFrom, and there are no secrets or fields to take it from: write a value")
        return value


class DeclaredArgument(_Argument):
    """An argument that a document takes; without a value it must be given where the document is used."""

    value: ValueText | None = None


class GivenArgument(_Argument):
    """An argument and its value, a text or a number."""

    value: ValueText


class ArgumentAnswer(Shape):
    """An argument of a template, and what it stands for."""

    name: str
    value: str


def _listed(value: Any) -> Any:
    """Also `{NAME: VALUE}`, as documents before there were arguments could write it."""
    return [{"name": name, "value": one} for name, one in value.items()] if isinstance(value, Mapping) else value


GivenArguments = Annotated[list[GivenArgument], Field(max_length=MAX_ARGS), BeforeValidator(_listed)]


def _open(schema: dict[str, Any]) -> None:
    """Let each field that holds a literal hold a text with an argument, too."""
    for name, field in schema.get("properties", {}).items():
        kinds = field.get("anyOf", [field])
        if any("$ref" in one or one.get("type") in ("array", "object") for one in kinds):
            continue
        around = {word: field[word] for word in ("default", "description", "title") if word in field}
        literal = [{word: said for word, said in one.items() if word not in around} for one in kinds]
        schema["properties"][name] = {**around, "anyOf": [*literal, _TEXT]}


class Fillable(Resource):
    """A part of a document in which arguments may stand for literals; it is read when they are filled in."""

    model_config = ConfigDict(json_schema_extra=_open)


def names_in(text: str) -> tuple[str, ...]:
    """The arguments that a text names, in their order; raises ValueError for other things in double braces."""
    if len(text) > MAX_TEXT:
        raise ValueError(f"holds double braces, and more than {MAX_TEXT} characters")
    names = []
    for braces in _BRACES.finditer(text):
        if (argument := _ARGUMENT.fullmatch(braces[1])) is None:
            raise ValueError(f"holds {braces[0][:64]}; only {{{{args.NAME}}}} may stand in double braces")
        names.append(argument[1])
    if "{{" in (rest := _BRACES.sub("", text)) or "}}" in rest:
        raise ValueError("holds double braces that are not closed; write {{args.NAME}}")
    return tuple(names)


def texts_in(value: JsonValue, place: Place = ()) -> Iterator[tuple[Place, str]]:
    """All texts of a document that hold double braces, and where."""
    if isinstance(value, str) and ("{{" in value or "}}" in value):
        yield place, value
    elif isinstance(value, dict):
        for name, one in value.items():
            yield from texts_in(one, (*place, name))
    elif isinstance(value, list):
        for at, one in enumerate(value):
            yield from texts_in(one, (*place, at))


def filled(value: JsonValue, values: Mapping[str, str], numbers: Callable[[Place], bool]) -> JsonValue:
    """The same with values for the arguments that there are values for, as texts.

    Where `numbers` says so, a text that was an argument and nothing else is the number that it has become the text of.
    """

    def walk(one: JsonValue, place: Place) -> JsonValue:
        if isinstance(one, dict):
            return {name: walk(inner, (*place, name)) for name, inner in one.items()}
        if isinstance(one, list):
            return [walk(inner, (*place, at)) for at, inner in enumerate(one)]
        if not isinstance(one, str) or "{{" not in one:
            return one
        text = _BRACES.sub(lambda braces: _put(braces, values), one)
        whole = _BRACES.fullmatch(one) is not None and one.count("{{") == 1
        return _number(text) if whole and numbers(place) else text

    return walk(value, ())


def _put(braces: re.Match[str], values: Mapping[str, str]) -> str:
    argument = _ARGUMENT.fullmatch(braces[1])
    return braces[0] if argument is None else values.get(argument[1], braces[0])


def _number(text: str) -> JsonValue:
    """The number that JSON would read there; the text where it is none."""
    if (match := _NUMBER.fullmatch(text)) is None:
        return text
    return float(text) if match[1] or match[2] else int(text)

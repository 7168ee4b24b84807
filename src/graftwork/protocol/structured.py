"""StructuredFields: what a body asks of its answer's form, in OpenAI's words and in vLLM's."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, TypedDict

from pydantic import BeforeValidator, ConfigDict, Field

from graftwork.errors import InvalidRequest
from graftwork.protocol.adapters import AdapterFields
from graftwork.protocol.body import Body, read_text

#: Kind (json, regex, choice or grammar), source and field of what the whole answer must be.
Form = tuple[Literal["json", "regex", "choice", "grammar"], str, str]


class AnswerForm(TypedDict, total=False):
    """`structured_outputs` in Python: one of these."""

    #: A JSON schema, or its text.
    json: Mapping[str, Any] | str
    #: True: any JSON object.
    json_object: bool
    #: In Rust's syntax, for the whole answer.
    regex: str
    choice: Sequence[str]
    #: In Lark's syntax, or in GBNF.
    grammar: str


def _schema(value: Any) -> Any:
    """A JSON schema as an object, or as the text of one."""
    if isinstance(value, str):
        try:
            value = read_text(value)
        except ValueError:
            raise ValueError("must be a JSON schema, and this text is not JSON") from None
    if value is not None and not isinstance(value, dict):
        raise ValueError("must be a JSON schema: an object, or the text of one")
    return value


Schema = Annotated[dict[str, Any] | None, BeforeValidator(_schema)]
Choices = Annotated[list[str] | None, Field(min_length=1)]


class JsonSchema(Body):
    """`response_format.json_schema`; the answer keeps to the schema whether `strict` or not."""

    name: str
    schema_: Annotated[dict[str, Any], Field(alias="schema")]
    strict: bool | None = None


class ResponseFormat(Body):
    """`response_format`: free text, any JSON object, or what a schema allows."""

    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchema | None = None

    @property
    def form(self) -> Form | None:
        if self.type == "text":
            return None
        if self.type == "json_object":
            return "json", '{"type": "object"}', "response_format"
        if self.json_schema is None:
            raise InvalidRequest("response_format.json_schema is required.", field="response_format.json_schema")
        return "json", json.dumps(self.json_schema.schema_), "response_format.json_schema.schema"


class StructuredOutputs(Body):
    """vLLM's `structured_outputs`: one of these."""

    model_config = ConfigDict(extra="forbid")

    json_: Annotated[Schema, Field(alias="json")] = None
    json_object: bool | None = None
    regex: str | None = None
    choice: Choices = None
    grammar: str | None = None

    @property
    def forms(self) -> list[Form]:
        return _forms("structured_outputs.", self.json_, self.json_object, self.regex, self.choice, self.grammar)


class StructuredFields(AdapterFields):
    """At most one of these; `guided_…` are vLLM's older names."""

    response_format: ResponseFormat | None = None
    structured_outputs: StructuredOutputs | None = None
    guided_json: Schema = None
    guided_regex: str | None = None
    guided_choice: Choices = None
    guided_grammar: str | None = None

    @property
    def form(self) -> Form | None:
        """What the whole answer must be; None: anything.

        Raises:
            InvalidRequest: more than one is asked for, or nothing is said of a schema.
        """
        one = self.response_format.form if self.response_format is not None else None
        found = [one] if one is not None else []
        if self.structured_outputs is not None:
            found += self.structured_outputs.forms
        found += _forms("guided_", self.guided_json, None, self.guided_regex, self.guided_choice, self.guided_grammar)
        return only_one(found)


def form_of(given: AnswerForm) -> Form | None:
    """What `given`, in the shape of `structured_outputs`, asks for.

    Raises:
        InvalidRequest: it is none, or asks for more than one.
    """
    return StructuredFields.read(json.dumps({"structured_outputs": dict(given)}).encode()).form


def only_one(found: list[Form]) -> Form | None:
    if len(found) > 1:
        first, second = found[0][2], found[1][2]
        raise InvalidRequest(f"{second} and {first} both say what the answer must be. Give one of them.", field=second)
    return found[0] if found else None


def _forms(
    prefix: str,
    schema: dict[str, Any] | None,
    any_object: bool | None,
    regex: str | None,
    choice: list[str] | None,
    grammar: str | None,
) -> list[Form]:
    found: list[Form] = []
    if schema is not None:
        found.append(("json", json.dumps(schema), f"{prefix}json"))
    if any_object:
        found.append(("json", '{"type": "object"}', f"{prefix}json_object"))
    if regex is not None:
        found.append(("regex", regex, f"{prefix}regex"))
    if choice is not None:
        found.append(("choice", json.dumps(choice), f"{prefix}choice"))
    if grammar is not None:
        found.append(("grammar", grammar, f"{prefix}grammar"))
    return found

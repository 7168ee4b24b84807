"""Task: what a task is, as it is written in files and sent to PUT /api/v1/tasks/{name}."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import Field

from graftwork.errors import InvalidRequest
from graftwork.protocol.resource import Document, Resource, Spec
from graftwork.protocol.sampling import INT32, INT64

MAX_TEMPLATE = 16_384  # characters of one message
MAX_MESSAGES = 32
MAX_FIELDS = 32
MAX_CHOICES = 256
MAX_SCHEMA_BYTES = 65_536
MAX_PATTERN = 4096
MAX_STOPS = 16
#: Longest text that a field may be given, and that may stand in the spec where nothing else is said.
MAX_TEXT = 65_536

Template = Annotated[str, Field(max_length=MAX_TEMPLATE)]
Line = Annotated[str, Field(min_length=1, max_length=256)]
Kind = Literal["text", "label", "json", "regex", "code"]
#: What a field may be; a number may be an integer.
Scalar = str | bool | int | float


class PromptMessage(Resource):
    """One turn; its content is a template."""

    role: Literal["system", "user", "assistant"]
    content: Template


class PromptPart(Resource):
    """What the model is asked: the turns of a chat, or one plain text to continue; without either the input's text."""

    messages: Annotated[list[PromptMessage] | None, Field(min_length=1, max_length=MAX_MESSAGES)] = None
    text: Annotated[str | None, Field(min_length=1, max_length=MAX_TEMPLATE)] = None

    @property
    def templates(self) -> list[tuple[str, str]]:
        """Where each stands, and the template."""
        if self.text is not None:
            return [("spec.prompt.text", self.text)]
        messages = enumerate(self.messages or ())
        return [(f"spec.prompt.messages.{index}.content", message.content) for index, message in messages]


class FieldPart(Resource):
    """A field beside the text: a part of JSON Schema. One without a default has to be given."""

    type: Literal["string", "integer", "number", "boolean"]
    description: Annotated[str | None, Field(max_length=2048)] = None
    enum: Annotated[list[Scalar] | None, Field(min_length=1, max_length=MAX_CHOICES)] = None
    max_length: Annotated[int, Field(ge=1, le=MAX_TEXT)] = 4096
    minimum: float | None = None
    maximum: float | None = None
    default: Scalar | None = None


class SamplingPart(Resource):
    """How the answer is drawn; what is left out is the adapter's own default, and then OpenAI's, but temperature 0."""

    temperature: Annotated[float, Field(ge=0, le=2)] = 0.0
    top_p: Annotated[float | None, Field(gt=0, le=1)] = None
    top_k: Annotated[int | None, Field(ge=-1, lt=INT32)] = None
    min_p: Annotated[float | None, Field(ge=0, le=1)] = None
    repetition_penalty: Annotated[float | None, Field(gt=0, le=2)] = None
    seed: Annotated[int | None, Field(ge=-INT64, lt=INT64)] = None
    #: None: the adapter's own default, else 256, and no more than the context holds.
    max_tokens: Annotated[int | None, Field(ge=1, lt=INT32)] = None
    stop: Annotated[list[Line], Field(max_length=MAX_STOPS)] = Field(default_factory=list)


class OutputPart(Resource):
    """What an answer has to be. With a label, a schema or a pattern the model can say nothing else."""

    type: Kind = "text"
    choices: Annotated[list[Line] | None, Field(min_length=1, max_length=MAX_CHOICES)] = None
    schema_: Annotated[dict[str, Any] | None, Field(alias="schema")] = None
    pattern: Annotated[str | None, Field(min_length=1, max_length=MAX_PATTERN)] = None

    def check(self) -> None:
        """Raises InvalidRequest unless just what its type needs is there."""
        needed = {"label": "choices", "json": "schema", "regex": "pattern"}.get(self.type)
        given = {"choices": self.choices, "schema": self.schema_, "pattern": self.pattern}
        for name, value in given.items():
            if (value is not None) != (name == needed):
                said = (
                    f"is required where the type is {self.type}" if name == needed else f"says nothing of {self.type}"
                )
                raise InvalidRequest(f"spec.output.{name} {said}.", field=f"spec.output.{name}")
        if self.choices is not None and len(set(self.choices)) < len(self.choices):
            raise InvalidRequest("spec.output.choices names one twice.", field="spec.output.choices")
        if self.schema_ is not None:
            size = len(json.dumps(self.schema_).encode())
            if size > MAX_SCHEMA_BYTES:
                raise InvalidRequest(
                    f"spec.output.schema has {size} bytes; at most {MAX_SCHEMA_BYTES} are read.",
                    field="spec.output.schema",
                )


class TaskSpec(Spec):
    """A task: who answers, how it is asked, and what comes of the answer."""

    description: Annotated[str, Field(max_length=2048)] = ""
    #: A reference, or a route's name; what `model` would say. None: the base.
    adapter: Annotated[str | None, Field(min_length=1, max_length=512)] = None
    prompt: PromptPart = Field(default_factory=PromptPart)
    fields: Annotated[
        dict[Annotated[str, Field(pattern="^[a-z][a-z0-9_]{0,63}$")], FieldPart], Field(max_length=MAX_FIELDS)
    ] = Field(default_factory=dict)
    sampling: SamplingPart = Field(default_factory=SamplingPart)
    output: OutputPart = Field(default_factory=OutputPart)

    def to_json(self) -> dict[str, Any]:
        """As it is stored: what was left out is there by its default, or not at all."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


class TaskResource(Document):
    """PUT /api/v1/tasks/{name} takes it."""

    kind: Literal["Task"]
    spec: TaskSpec

    def check(self) -> None:
        self.spec.output.check()
        if self.spec.prompt.messages is not None and self.spec.prompt.text is not None:
            raise InvalidRequest(
                "spec.prompt has messages, which are a chat, and text, which is none. Give one of them.",
                field="spec.prompt",
            )
        if self.spec.sampling.stop and self.spec.output.type in ("label", "json", "regex"):
            raise InvalidRequest(
                f"spec.sampling.stop could end an answer of the type {self.spec.output.type} in the middle. Leave it "
                "out: such an answer ends where it is complete.",
                field="spec.sampling.stop",
            )

"""TaskRequest: the body of POST /v1/tasks, and what comes back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, RootModel

from graftwork.errors import InvalidRequest
from graftwork.protocol.adapters import AdapterFields
from graftwork.protocol.answers import ErrorInfo, OpenAIError, Shape, Signed, Usage
from graftwork.protocol.body import Body

MAX_TASK_INPUTS = 256
Fields = dict[str, Any]


class TaskInput(Body):
    """One text, with fields of its own beside those of the request, over which they win."""

    model_config = ConfigDict(extra="forbid")

    text: str
    fields: Fields | None = None


def _input(value: Any) -> Any:
    if isinstance(value, str):
        return {"text": value}
    if isinstance(value, dict):
        return value
    raise ValueError("must be a text, or an object with a text")


InputGiven = str | TaskInput


class TaskRequest(AdapterFields):
    """A task by its name, and one `text` or several `inputs`.

    `model`, `adapter_id`, `adapters` and X-Adapter-Id win over the task's own adapter, so that a version can be tried
    by the task before it is what the task means. This door is ours: a field that it does not have is a mistake.
    """

    model_config = ConfigDict(extra="forbid")

    task: str
    text: str | None = None
    inputs: Annotated[
        list[Annotated[TaskInput, BeforeValidator(_input, json_schema_input_type=InputGiven)]] | None,
        Field(min_length=1, max_length=MAX_TASK_INPUTS),
    ] = None
    fields: Fields | None = None

    def check(self) -> None:
        if (self.text is None) == (self.inputs is None):
            raise InvalidRequest("Give text, which is one input, or inputs, which are several.", field="text")

    @property
    def each(self) -> Sequence[TaskInput]:
        """All inputs, with the fields that hold for each."""
        if self.text is not None:
            return [TaskInput(text=self.text, fields=self.fields)]
        shared = self.fields or {}
        return [TaskInput(text=one.text, fields={**shared, **(one.fields or {})}) for one in self.inputs or ()]


class TaskResult(Shape):
    """One input's: `result` is of the task's type, `text` what the model said; beside an `error`, `result` is null."""

    result: Any
    text: str
    finish_reason: Literal["stop", "length"] | None
    error: ErrorInfo | None
    usage: Usage


class TaskAnswer(TaskResult):
    """POST /v1/tasks with `text`; 422 with `error` where the model's answer is not what the task promises."""

    id: str
    object: Literal["task.result"]
    created: int
    task: str
    model: str
    graftwork: Signed


class TaskItem(TaskResult):
    """One of several inputs."""

    index: int


class TaskBatch(Shape):
    """POST /v1/tasks with `inputs`: all of them, in order; each has its own result or its own error."""

    id: str
    object: Literal["list"]
    created: int
    task: str
    model: str
    data: list[TaskItem]
    usage: Usage
    graftwork: Signed


class TaskAnswers(RootModel[TaskAnswer | TaskBatch]):
    """POST /v1/tasks."""


class TaskErrors(RootModel[TaskAnswer | OpenAIError]):
    """POST /v1/tasks with 422."""

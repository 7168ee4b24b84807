"""POST /v1/tasks: one input or many through a task; each becomes a value of the task's type, or an error of its own."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Coroutine, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from graftwork.access.names import DEFAULT
from graftwork.adapters.companions.companions import NO_COMPANIONS
from graftwork.engine.grammar import Grammar
from graftwork.engine.request import AdapterHandle, Delta, GenerationRequest, Prompt
from graftwork.engine.sampling_params import SamplingParams
from graftwork.errors import (
    Forbidden,
    GraftworkError,
    InvalidRequest,
    NotFound,
    Refused,
    Unavailable,
    UnknownModel,
    UnreadableAnswer,
)
from graftwork.gateway.answer_shape import Choice, usage_of
from graftwork.gateway.choosing import Chosen, choose_for
from graftwork.gateway.circumstances import route_of
from graftwork.gateway.disconnect import unless_gone
from graftwork.gateway.openapi import inference
from graftwork.gateway.poolings import AT_ONCE
from graftwork.gateway.request_body import read_json
from graftwork.gateway.route_defaults import limited, with_companions
from graftwork.gateway.sampling import task_params
from graftwork.gateway.services import Services, services_of, tenant_of
from graftwork.protocol.errors import kind_of, openai_error
from graftwork.protocol.task_runs import TaskAnswers, TaskErrors, TaskInput, TaskRequest
from graftwork.traffic.tasks.fields import read_fields
from graftwork.traffic.tasks.live import LiveTasks
from graftwork.traffic.tasks.result import grammar_of, result_of
from graftwork.traffic.tasks.tasks import Task

router = APIRouter(prefix="/v1", tags=["inference"], default_response_class=Response)
log = logging.getLogger(__name__)
T = TypeVar("T")

#: Tokens of an answer where neither the task nor the adapter says.
USUAL_TOKENS = 256
#: The engine's words for what was too long or not to be read; here it is the text.
_OF_THE_TEXT = frozenset({"prompt", "messages", "max_tokens"})


@router.post("/tasks", openapi_extra=inference(TaskAnswers, body=TaskRequest, also={422: TaskErrors}))
async def run_task(request: Request) -> Response:
    """The result of one text, or of each of several inputs, by a task."""
    services = services_of(request)
    body = await read_json(request, services.settings.max_body_bytes, TaskRequest)
    task = services.snapshots.current().part(LiveTasks).get(tenant_of(request), body.task)
    chosen = await _choose(request, services, body, task)
    body, draft = with_companions(body, chosen.signature.decision), chosen.draft
    run = await _run_of(services, task, chosen, body)
    draft.template = run.template
    if chosen.signature.decision.shadows:
        draft.again = partial(_again, services, task, chosen, body)
    outcomes = await unless_gone(request.receive, run.all(body.each))
    head = {
        "id": f"task-{chosen.signature.request_id}",
        "object": "task.result" if body.text is not None else "list",
        "created": int(time.time()),
        "task": task.name,
        "model": chosen.model,
        "graftwork": chosen.signature.to_json(),
    }
    if run.grammar is not None:
        draft.format_valid = not any(isinstance(one.error, UnreadableAnswer) for one in outcomes)
    made = _alone(outcomes[0]) if body.text is not None else _all(outcomes)
    status = kind_of(outcomes[0].error).status if body.text is not None and outcomes[0].error else 200
    return JSONResponse({**head, **made}, status, headers=chosen.signature.headers())


async def _choose(request: Request, services: Services, body: TaskRequest, task: Task) -> Chosen:
    """Whoever the request names, or the route at whose door it came; else the task's adapter, as `model` means it."""
    says = route_of(request) is not None or (body.model and body.model != DEFAULT)
    named = None if says else task.spec.adapter
    try:
        chosen = await choose_for(request, services, body.model_copy(update={"model": named}) if named else body)
    except UnknownModel as error:
        if named is None or error.reference != named:
            raise
        raise NotFound(
            f"The task {task.name} is for the adapter {named!r}, which does not exist. Push it, or set the task anew."
        ) from error
    chosen.draft.task = task.label
    return replace(chosen, signature=replace(chosen.signature, task=task.label))


@dataclass(frozen=True)
class Outcome:
    """What became of one input: what the model said of it, and what that means or why it means nothing."""

    choice: Choice
    result: Any = None
    error: GraftworkError | None = None

    def to_json(self, at: str = "") -> dict[str, Any]:
        return {
            "result": self.result,
            "text": "".join(self.choice.text),
            "finish_reason": self.choice.finish_reason,
            "error": None if self.error is None else _told(self.error, at),
            "usage": usage_of([self.choice]),
        }


@dataclass(frozen=True)
class TaskRun:
    """A task, who answers, and how."""

    services: Services
    task: Task
    chosen: Chosen
    params: SamplingParams
    grammar: Grammar | None
    own: bool  #: whether what the adapter carries is used
    template: str | None  #: source of the adapter's own chat template, where it is used

    async def all(self, inputs: Sequence[TaskInput]) -> list[Outcome]:
        """Of each input, in order; cancelling it frees every row."""
        prompts, requests = await self.requests(inputs)
        streams = self.services.generations.each(self.chosen.engine, requests, self.chosen.model, self.chosen.draft)
        turn = asyncio.Semaphore(AT_ONCE)
        answered = iter(await _together(self._answered(stream, turn) for stream in streams))
        return [Outcome(Choice(), error=one) if isinstance(one, GraftworkError) else next(answered) for one in prompts]

    async def requests(
        self, inputs: Sequence[TaskInput]
    ) -> tuple[list[Prompt | GraftworkError], list[GenerationRequest]]:
        """The prompt of each input, or what is wrong with it; and what the engine is asked for those that have one."""
        prompts = await _together(self._filled(given) for given in inputs)
        asked = [(index, one) for index, one in enumerate(prompts) if not isinstance(one, GraftworkError)]
        return prompts, [self._request(index, prompt) for index, prompt in asked]

    async def _filled(self, given: TaskInput) -> Prompt | GraftworkError:
        spec = self.task.spec
        try:
            values = {**read_fields(spec.fields, given.fields or {}), "text": given.text}
            return await self.services.task_prompts.fill(spec, values, self.task.tenant)
        except GraftworkError as error:
            return error

    def _request(self, index: int, prompt: Prompt) -> GenerationRequest:
        return GenerationRequest(
            f"{self.chosen.signature.request_id}-{index}",
            prompt,
            self.params,
            self.chosen.adapter,
            self.own,
            USUAL_TOKENS,
            self.chosen.caller,
            self.grammar,
            self.chosen.signature.decision.defaults.limits.max_tokens,
        )

    async def _answered(self, stream: AsyncGenerator[Delta, None], turn: asyncio.Semaphore) -> Outcome:
        choice, output = Choice(), self.task.spec.output
        try:
            async with turn, aclosing(stream):
                async for delta in stream:
                    choice.add(delta)
            return Outcome(choice, result_of(output, "".join(choice.text), choice.finish_reason))
        except GraftworkError as error:
            return Outcome(choice, error=error)


async def _together(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """What each becomes, side by side and in order; where one raises, or the caller leaves, all of them end."""
    running = [asyncio.ensure_future(one) for one in work]
    try:
        return await asyncio.gather(*running)
    finally:
        for one in running:
            one.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def _run_of(services: Services, task: Task, chosen: Chosen, body: TaskRequest) -> TaskRun:
    """Within the limits of the route; what else it would say to a request, the task says already."""
    spec, adapter, own = task.spec, chosen.adapter, body.companions != "base"
    limits = chosen.signature.decision.defaults.limits
    companions = await chosen.engine.companions(adapter) if adapter and own else NO_COMPANIONS
    params = limited(task_params(spec.sampling, companions.defaults), limits)
    if limits.max_tokens is not None and params.max_tokens is not None:
        params = replace(params, max_tokens=min(params.max_tokens, limits.max_tokens))
    if chosen.draft.recording.logprobs:
        params = replace(params, logprobs=0)
    template = companions.chat_template if spec.prompt.text is None else None
    return TaskRun(services, task, chosen, params, grammar_of(spec.output), own, template)


async def _again(
    services: Services, task: Task, chosen: Chosen, body: TaskRequest, handle: AdapterHandle
) -> Sequence[GenerationRequest]:
    """The same inputs for another version."""
    run = await _run_of(services, task, replace(chosen, adapter=handle), body)
    return (await run.requests(body.each))[1]


def _alone(outcome: Outcome) -> dict[str, Any]:
    """Raises what went wrong, but for an answer that cannot be read: that one is shown."""
    if outcome.error is not None and not isinstance(outcome.error, UnreadableAnswer):
        raise _about_text(outcome.error)
    return outcome.to_json()


def _all(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Raises Unavailable where nothing was answered because the server is full: all of it can be sent again."""
    errors = [one.error for one in outcomes]
    if isinstance(errors[0], Unavailable) and all(isinstance(error, Unavailable) for error in errors):
        raise errors[0]
    data = [{"index": index, **one.to_json(f"inputs.{index}.")} for index, one in enumerate(outcomes)]
    return {"data": data, "usage": usage_of([one.choice for one in outcomes])}


def _told(error: GraftworkError, at: str) -> dict[str, Any]:
    """An error in OpenAI's words; `at` is where the input is that it is about."""
    kind, about = kind_of(error), _about_text(error)
    if kind.status >= 500:
        log.warning("%s: %s", type(error).__name__, error.message)
    field = about.field if isinstance(about, InvalidRequest) else None
    ours = field is not None and not field.startswith("spec.")
    told: dict[str, Any] = openai_error(error.message, kind, param=f"{at}{field}" if ours else field)["error"]
    return {**told, "problems": list(error.problems)} if isinstance(error, Forbidden | Refused) else told


def _about_text(error: GraftworkError) -> GraftworkError:
    if isinstance(error, InvalidRequest) and error.field in _OF_THE_TEXT:
        return InvalidRequest(error.message, field="text")
    return error

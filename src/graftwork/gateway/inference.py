"""The inference doors: POST /v1/chat/completions and /v1/completions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from graftwork.adapters.companions.companions import NO_COMPANIONS
from graftwork.engine.grammar import Grammar
from graftwork.engine.request import AdapterHandle, ChatPrompt, GenerationRequest, Prompt
from graftwork.engine.sampling_params import SamplingParams
from graftwork.gateway.answer_shape import AnswerShape, Choice, Envelope
from graftwork.gateway.choosing import Chosen, choose_for
from graftwork.gateway.disconnect import EventStream, unless_gone
from graftwork.gateway.openapi import inference
from graftwork.gateway.request_body import read_json
from graftwork.gateway.route_defaults import limited, with_defaults
from graftwork.gateway.sampling import choice_params
from graftwork.gateway.services import Services, services_of
from graftwork.gateway.shapes import CHAT, TEXT
from graftwork.gateway.streaming import events, whole
from graftwork.gateway.tool_use import ToolUse, tool_use
from graftwork.protocol.answers import ChatAnswer, ChatChunk, CompletionAnswer, CompletionChunk
from graftwork.protocol.chat import ChatRequest
from graftwork.protocol.completions import CompletionRequest

router = APIRouter(prefix="/v1", tags=["inference"], default_response_class=Response)


@router.post("/chat/completions", openapi_extra=inference(ChatAnswer, body=ChatRequest, chunk=ChatChunk))
async def chat_completions(request: Request) -> Response:
    """The assistant's next message, whole or streamed."""
    services = services_of(request)
    body = await read_json(request, services.settings.max_body_bytes, ChatRequest)
    chosen = await choose_for(request, services, body)
    body = with_defaults(body, chosen.signature.decision)
    tools = tuple(tool.for_template() for tool in body.tools or ()) if body.offered else ()
    prompt = ChatPrompt(tuple(message.for_template() for message in body.messages), tools)
    return await _answer(request, services, body, chosen, [prompt], CHAT)


@router.post("/completions", openapi_extra=inference(CompletionAnswer, body=CompletionRequest, chunk=CompletionChunk))
async def completions(request: Request) -> Response:
    """The continuation of each prompt, whole or streamed."""
    services = services_of(request)
    body = await read_json(request, services.settings.max_body_bytes, CompletionRequest)
    chosen = await choose_for(request, services, body)
    body = with_defaults(body, chosen.signature.decision)
    return await _answer(request, services, body, chosen, body.prompts, TEXT)


async def _answer(
    request: Request,
    services: Services,
    body: ChatRequest | CompletionRequest,
    chosen: Chosen,
    prompts: Sequence[Prompt],
    shape: AnswerShape,
) -> Response:
    signature, draft = chosen.signature, chosen.draft
    envelope, logprobs = Envelope(shape, signature, body.choices), body.alternatives is not None
    asked = await _asked(body, chosen, prompts)
    requests, tools = asked.requests, asked.tools
    choices = [Choice(reader=tools.reader() if tools is not None else None) for _ in requests]
    draft.template = asked.template
    draft.streamed, draft.form_asked = bool(body.stream), body.form is not None
    draft.choices_per_prompt, draft.choices = body.choices, choices
    if signature.decision.shadows:
        draft.again = partial(_again, body, chosen, prompts)
    pieces = services.generations.run(chosen.engine, requests, chosen.model, draft)
    if not body.stream:
        answer: dict[str, Any] = await unless_gone(request.receive, whole(pieces, envelope, choices, logprobs=logprobs))
        return JSONResponse(answer, headers=signature.headers())
    # The first piece is awaited before the headers leave, so that what is wrong has a real status.
    first = await unless_gone(request.receive, pieces.__anext__())
    stream = events(first, pieces, envelope, choices, logprobs=logprobs, include_usage=body.include_usage)
    return EventStream(stream, source=pieces, headers=signature.headers())


@dataclass(frozen=True)
class _Asked:
    """What the engine is asked for, for one request."""

    requests: list[GenerationRequest]
    tools: ToolUse | None
    template: str | None  #: source of the adapter's own chat template


async def _asked(body: ChatRequest | CompletionRequest, chosen: Chosen, prompts: Sequence[Prompt]) -> _Asked:
    handle, decision = chosen.adapter, chosen.signature.decision
    own = handle is not None and body.companions != "base"
    companions = await chosen.engine.companions(handle) if handle and own else NO_COMPANIONS
    params = [limited(one, decision.defaults.limits) for one in choice_params(body, companions.defaults)]
    if chosen.draft.recording.logprobs:
        params = [replace(one, logprobs=0) if one.logprobs is None else one for one in params]
    tools = await tool_use(chosen, body) if isinstance(body, ChatRequest) else None
    grammar = Grammar(*body.form) if body.form is not None else None
    grammar = tools.grammar(grammar) if tools is not None else grammar
    requests = _generation_requests(chosen.signature.request_id, prompts, body, params, chosen, grammar)
    return _Asked(requests, tools, companions.chat_template if isinstance(body, ChatRequest) else None)


async def _again(
    body: ChatRequest | CompletionRequest, chosen: Chosen, prompts: Sequence[Prompt], handle: AdapterHandle
) -> Sequence[GenerationRequest]:
    """The same of another version, with what that brings along."""
    return (await _asked(body, replace(chosen, adapter=handle), prompts)).requests


def _generation_requests(
    request_id: str,
    prompts: Sequence[Prompt],
    body: ChatRequest | CompletionRequest,
    params: Sequence[SamplingParams],
    chosen: Chosen,
    grammar: Grammar | None,
) -> list[GenerationRequest]:
    own, most = body.companions != "base", chosen.signature.decision.defaults.limits.max_tokens
    each = [(prompt, one) for prompt in prompts for one in params]
    return [
        GenerationRequest(
            f"{request_id}-{index}", prompt, one, chosen.adapter, own, body.usual_tokens, chosen.caller, grammar, most
        )
        for index, (prompt, one) in enumerate(each)
    ]

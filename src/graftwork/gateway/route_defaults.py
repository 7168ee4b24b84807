"""What the rules of a route set of a request: checked against its limits, and filled in where it says nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

from graftwork.engine.sampling_params import SamplingParams
from graftwork.errors import InvalidRequest
from graftwork.protocol.adapters import AdapterFields
from graftwork.protocol.chat import ChatRequest, Message
from graftwork.protocol.completions import CompletionRequest
from graftwork.protocol.routes import Limits, Range
from graftwork.traffic.decision import Decision
from graftwork.traffic.routes.defaults import NO_DEFAULTS, within

Fields = TypeVar("Fields", bound=AdapterFields)
Generating = TypeVar("Generating", ChatRequest, CompletionRequest)


def with_companions(body: Fields, decision: Decision) -> Fields:
    """Whose template and tokens are used, where the request does not say."""
    companions = decision.defaults.companions
    return body if body.companions or companions is None else body.model_copy(update={"companions": companions})


def with_defaults(body: Generating, decision: Decision) -> Generating:
    """The request as the route has it answered.

    Raises:
        InvalidRequest: it asks for more than the route's limits.
    """
    defaults = decision.defaults
    if defaults is NO_DEFAULTS:
        return body
    _check(body, defaults.limits, decision.route)
    said = {"temperature": defaults.temperature, "top_p": defaults.top_p}
    update: dict[str, object] = {name: value for name, value in said.items() if getattr(body, name) is None}
    if isinstance(body, ChatRequest) and defaults.system_prompt is not None and not _has_system(body):
        system = Message.model_construct(role="system", content=defaults.system_prompt)
        update["messages"] = [system, *body.messages]
    return with_companions(body, decision).model_copy(update=update)


def limited(params: SamplingParams, limits: Limits) -> SamplingParams:
    """What nobody said in the request, and so an adapter or OpenAI's defaults did, within the limits."""
    if limits.temperature is None and limits.top_p is None:
        return params
    temperature, top_p = within(params.temperature, limits.temperature), within(params.top_p, limits.top_p)
    return replace(params, temperature=temperature, top_p=top_p)


def _check(body: ChatRequest | CompletionRequest, limits: Limits, route: str) -> None:
    asked = body.token_limit
    if limits.max_tokens is not None and asked is not None and asked > limits.max_tokens:
        raise InvalidRequest(
            f"max_tokens is {asked}; the route {route} gives at most {limits.max_tokens}.", field="max_tokens"
        )
    for name, value, limit in (
        ("temperature", body.temperature, limits.temperature),
        ("top_p", body.top_p, limits.top_p),
    ):
        if value is not None and within(value, limit) != value:
            raise InvalidRequest(f"{name} is {value:g}; the route {route} takes {_words(limit)}.", field=name)


def _words(limit: Range | None) -> str:
    assert limit is not None, "what has no limit is within it"
    low = f"from {limit.min:g}" if limit.min is not None else ""
    high = f"at most {limit.max:g}" if limit.max is not None else ""
    return " and ".join(text for text in (low, high) if text)


def _has_system(body: ChatRequest) -> bool:
    return any(message.role in ("system", "developer") for message in body.messages)

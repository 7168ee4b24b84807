"""From the wire to the engine: how a body's fields become sampling parameters."""

from __future__ import annotations

from graftwork.adapters.generation_defaults import NO_DEFAULTS, GenerationDefaults
from graftwork.engine.sampling_params import SamplingParams
from graftwork.protocol.chat import ChatRequest
from graftwork.protocol.completions import CompletionRequest

_KEEP_ALL = 0


def sampling_params(
    body: ChatRequest | CompletionRequest, defaults: GenerationDefaults = NO_DEFAULTS
) -> SamplingParams:
    """The parameters that `body` asks for; for what it leaves out the adapter's defaults, and then OpenAI's."""
    top_k = body.top_k if body.top_k is not None else defaults.top_k
    # Left out, the engine takes the adapter's own limit, as far as the context reaches.
    adapters_limit = isinstance(body, CompletionRequest) and body.max_tokens is None and defaults.max_new_tokens
    return SamplingParams(
        temperature=_first(body.temperature, defaults.temperature, 1.0),
        top_p=_first(body.top_p, defaults.top_p, 1.0),
        top_k=top_k if top_k is not None and top_k > 0 else _KEEP_ALL,
        min_p=_first(body.min_p, defaults.min_p, 0.0),
        seed=body.seed,
        max_tokens=None if adapters_limit else body.token_limit,
        ignore_eos=bool(body.ignore_eos),
        stop=tuple(body.stop),
        stop_token_ids=tuple(body.stop_token_ids or ()),
        logprobs=body.alternatives,
        presence_penalty=_first(body.presence_penalty, 0.0),
        frequency_penalty=_first(body.frequency_penalty, 0.0),
        repetition_penalty=_first(body.repetition_penalty, defaults.repetition_penalty, 1.0),
    )


def _first(*values: float | None) -> float:
    return next(value for value in values if value is not None)

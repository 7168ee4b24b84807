"""From the wire to the engine: how a body's fields become sampling parameters."""

from __future__ import annotations

from graftwork.engine.sampling_params import SamplingParams
from graftwork.protocol.chat import ChatRequest
from graftwork.protocol.completions import CompletionRequest

_KEEP_ALL = 0


def sampling_params(body: ChatRequest | CompletionRequest) -> SamplingParams:
    """The parameters that `body` asks for, with OpenAI's defaults for what it leaves out."""
    return SamplingParams(
        temperature=_or(body.temperature, 1.0),
        top_p=_or(body.top_p, 1.0),
        top_k=body.top_k if body.top_k is not None and body.top_k > 0 else _KEEP_ALL,
        min_p=_or(body.min_p, 0.0),
        seed=body.seed,
        max_tokens=body.token_limit,
        ignore_eos=bool(body.ignore_eos),
        stop=tuple(body.stop),
        stop_token_ids=tuple(body.stop_token_ids or ()),
        logprobs=body.alternatives,
        presence_penalty=_or(body.presence_penalty, 0.0),
        frequency_penalty=_or(body.frequency_penalty, 0.0),
        repetition_penalty=_or(body.repetition_penalty, 1.0),
    )


def _or(value: float | None, default: float) -> float:
    return default if value is None else value

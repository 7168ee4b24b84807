"""From the wire to the engine: how a body's fields become sampling parameters."""

from __future__ import annotations

from dataclasses import replace

from graftwork.adapters.companions.generation_defaults import NO_DEFAULTS, GenerationDefaults
from graftwork.engine.sampling_params import SamplingParams
from graftwork.protocol.chat import ChatRequest
from graftwork.protocol.completions import CompletionRequest
from graftwork.protocol.tasks import SamplingPart

_KEEP_ALL = 0
#: Far from the seeds that people give, and odd, so that no two choices share one.
_SEED_STEP = 0x9E3779B97F4A7C15


def choice_params(
    body: ChatRequest | CompletionRequest, defaults: GenerationDefaults = NO_DEFAULTS
) -> list[SamplingParams]:
    """Of each choice of one prompt: the same but for the seed, which the request's seed and the index decide.

    Choice 0 has the request's own seed, so it is what a request for one choice gets.
    """
    params = sampling_params(body, defaults)
    return [replace(params, seed=_choice_seed(params.seed, index)) for index in range(body.choices)]


def _choice_seed(seed: int | None, index: int) -> int | None:
    return None if seed is None else (seed + index * _SEED_STEP + (1 << 63)) % (1 << 64) - (1 << 63)


def sampling_params(
    body: ChatRequest | CompletionRequest, defaults: GenerationDefaults = NO_DEFAULTS
) -> SamplingParams:
    """The parameters that `body` asks for; for what it leaves out the adapter's defaults, and then OpenAI's.

    Raises:
        InvalidRequest: they do not go together.
    """
    top_k = body.top_k if body.top_k is not None else defaults.top_k
    return SamplingParams(
        temperature=_first(body.temperature, defaults.temperature, 1.0),
        top_p=_first(body.top_p, defaults.top_p, 1.0),
        top_k=top_k if top_k is not None and top_k > 0 else _KEEP_ALL,
        min_p=_first(body.min_p, defaults.min_p, 0.0),
        seed=body.seed,
        max_tokens=body.token_limit,
        ignore_eos=bool(body.ignore_eos),
        stop=tuple(body.stop),
        stop_token_ids=tuple(body.stop_token_ids or ()),
        logprobs=body.alternatives,
        echo=body.repeats_prompt,
        prompt_logprobs=body.prompt_logprobs,
        logit_bias=body.logit_bias,
        min_tokens=body.min_tokens or 0,
        presence_penalty=_first(body.presence_penalty, 0.0),
        frequency_penalty=_first(body.frequency_penalty, 0.0),
        repetition_penalty=_first(body.repetition_penalty, defaults.repetition_penalty, 1.0),
    )


def task_params(part: SamplingPart, defaults: GenerationDefaults) -> SamplingParams:
    """The parameters that a task asks for; for what it leaves out the adapter's defaults, and then OpenAI's."""
    top_k = part.top_k if part.top_k is not None else defaults.top_k
    return SamplingParams(
        temperature=part.temperature,
        top_p=_first(part.top_p, defaults.top_p, 1.0),
        top_k=top_k if top_k is not None and top_k > 0 else _KEEP_ALL,
        min_p=_first(part.min_p, defaults.min_p, 0.0),
        repetition_penalty=_first(part.repetition_penalty, defaults.repetition_penalty, 1.0),
        seed=part.seed,
        max_tokens=part.max_tokens,
        stop=tuple(part.stop),
    )


def _first(*values: float | None) -> float:
    return next(value for value in values if value is not None)

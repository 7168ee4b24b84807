"""From the wire to the engine: how a body's fields become sampling parameters."""

from __future__ import annotations

from dataclasses import replace

from graftwork.engine.sampling_params import SamplingParams
from graftwork.protocol.chat import ChatRequest
from graftwork.protocol.completions import CompletionRequest

_KEEP_ALL = 0
#: Far from the seeds that people give, and odd, so that no two choices share one.
_SEED_STEP = 0x9E3779B97F4A7C15


def choice_params(body: ChatRequest | CompletionRequest) -> list[SamplingParams]:
    """Of each choice of one prompt: the same but for the seed, which the request's seed and the index decide.

    Choice 0 has the request's own seed, so it is what a request for one choice gets.
    """
    params = sampling_params(body)
    return [replace(params, seed=_choice_seed(params.seed, index)) for index in range(body.choices)]


def _choice_seed(seed: int | None, index: int) -> int | None:
    return None if seed is None else (seed + index * _SEED_STEP + (1 << 63)) % (1 << 64) - (1 << 63)


def sampling_params(body: ChatRequest | CompletionRequest) -> SamplingParams:
    """The parameters that `body` asks for, with OpenAI's defaults for what it leaves out.

    Raises:
        InvalidRequest: they do not go together.
    """
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
        echo=body.repeats_prompt,
        prompt_logprobs=body.prompt_logprobs,
        logit_bias=body.logit_bias,
        min_tokens=body.min_tokens or 0,
        presence_penalty=_or(body.presence_penalty, 0.0),
        frequency_penalty=_or(body.frequency_penalty, 0.0),
        repetition_penalty=_or(body.repetition_penalty, 1.0),
    )


def _or(value: float | None, default: float) -> float:
    return default if value is None else value

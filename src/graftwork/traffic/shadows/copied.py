"""Copied: one request that two versions have answered, on its way to being compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Side:
    """What one version did with the request. Times are in seconds; what is None was not measured, or is not there."""

    model: str  #: `support:2.0.0`
    digest: str
    texts: Sequence[str] = ()
    latency_s: float | None = None  #: from when the engine was asked to the last token
    ttft_s: float | None = None  #: the same to the first token
    prompt_tokens: int = 0
    output_tokens: int = 0
    mean_logprob: float | None = None
    finish_reason: str | None = None
    error: str | None = None  #: the code that an answer would have had


@dataclass(frozen=True)
class Copied:
    """`answer` is what the caller got, `shadow` what the copy became."""

    tenant: str
    request_id: str
    at: str  #: when the request had come
    door: str
    route: str
    rollout: str
    arm: str
    user_id: str | None
    sampled: bool  #: at a temperature above 0, so that equal versions differ, too
    answer: Side
    shadow: Side
    keep_text: bool = False
    size: int = 0  #: about how many bytes of memory it holds

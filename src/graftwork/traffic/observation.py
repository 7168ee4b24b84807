"""Observation: what is known of one answered request, as gates judge it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Outcome = Literal["ok", "error", "aborted"]


@dataclass(frozen=True)
class Observation:
    """One answer of one arm. Times are in seconds; what was not measured is None."""

    at: str  #: when the request came: RFC 3339, UTC, microseconds
    arm: str
    digest: str | None  #: of the version that answered; None for the base
    outcome: Outcome  #: `aborted` is the client's doing, `error` ours
    latency_s: float
    ttft_s: float | None = None  #: to the first token
    prompt_tokens: int = 0
    output_tokens: int = 0
    mean_logprob: float | None = None  #: of the tokens of the answer
    finish_reason: str | None = None  #: `stop`, `length`, `tool_calls`
    empty: bool = False  #: nothing but blanks
    repetitive: bool = False  #: the same words over and over
    refusal: bool = False  #: the model said that it would not
    format_valid: bool | None = None  #: None where no form was asked for
    feedback: Mapping[str, float] = field(default_factory=dict)  #: scores and business events by name

    @property
    def truncated(self) -> bool:
        return self.finish_reason == "length"

"""Answer: what an engine of your own gives back."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Answer:
    """A whole answer and who gave it: `model` is `name:1.4.0`, or the base's name."""

    text: str
    model: str
    digest: str
    finish_reason: str
    prompt_tokens: int
    completion_tokens: int
    #: Of the prompt's tokens, those that an earlier request has left behind and nobody computed again.
    cached_tokens: int = 0
    #: Versions that should no longer be used, and what to use instead.
    deprecated: tuple[str, ...] = ()

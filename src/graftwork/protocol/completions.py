"""CompletionRequest: the body of POST /v1/completions."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from graftwork.errors import InvalidRequest
from graftwork.protocol.not_yet import NOT_YET_COMPLETIONS, refuse_not_yet
from graftwork.protocol.sampling import MAX_CHOICES, SamplingFields

MAX_LOGPROBS = 5
MAX_PROMPTS = 128
MAX_PROMPT_TOKENS = 1 << 20  # of all prompts given as token ids
DEFAULT_MAX_TOKENS = 16  # OpenAI's own default on this door

OnePrompt = str | tuple[int, ...]


def _prompts(value: Any) -> tuple[OnePrompt, ...]:
    """OpenAI's four shapes of a prompt, as the list of prompts that they mean."""
    if isinstance(value, str):
        return (value,)
    if isinstance(value, list) and value:
        _check_lengths(value)
        if all(isinstance(one, str) for one in value):
            return tuple(value)
        if _token_ids(value):
            return (tuple(value),)
        if all(isinstance(one, list) and one and _token_ids(one) for one in value):
            return tuple(tuple(one) for one in value)
    raise ValueError("must be a string, a non-empty list of token ids, or a non-empty list of either")


def _check_lengths(value: list[Any]) -> None:
    prompts, tokens = len(value), sum(len(one) for one in value if isinstance(one, list))
    if type(value[0]) is int:
        prompts, tokens = 1, prompts
    if prompts > MAX_PROMPTS:
        raise ValueError(f"has {prompts} prompts; at most {MAX_PROMPTS} in one request")
    if tokens > MAX_PROMPT_TOKENS:
        raise ValueError(f"has {tokens} token ids; at most {MAX_PROMPT_TOKENS} in one request")


def _token_ids(value: list[Any]) -> bool:
    return all(type(one) is int and 0 <= one < 2**31 for one in value)


class CompletionRequest(SamplingFields):
    """Plain completion: a prompt in, its continuation out; several prompts give several choices."""

    # `Any` where it is stored: the validator has already made it a tuple of prompts.
    prompt: Annotated[Any, BeforeValidator(_prompts)]
    logprobs: Annotated[int | None, Field(ge=0, le=MAX_LOGPROBS)] = None
    echo: bool | None = None

    def check(self) -> None:
        refuse_not_yet(self.model_extra or {}, NOT_YET_COMPLETIONS)
        super().check()
        prompts, n = len(self.prompts), self.choices
        if prompts * n > MAX_CHOICES:
            raise InvalidRequest(
                f"n is {n} and there are {prompts} prompts: {prompts * n} choices; at most {MAX_CHOICES} are made.",
                field="n",
            )

    @property
    def prompts(self) -> tuple[OnePrompt, ...]:
        prompts: tuple[OnePrompt, ...] = self.prompt
        return prompts

    @property
    def repeats_prompt(self) -> bool:
        return bool(self.echo)

    @property
    def token_limit(self) -> int:
        return self.max_tokens if self.max_tokens is not None else DEFAULT_MAX_TOKENS

    @property
    def alternatives(self) -> int | None:
        return self.logprobs

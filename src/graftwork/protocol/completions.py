"""CompletionRequest: the body of POST /v1/completions."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from graftwork.errors import InvalidRequest
from graftwork.protocol.not_yet import NOT_YET_COMPLETIONS, refuse_not_yet
from graftwork.protocol.prompts import OnePrompt, PromptsGiven, read_prompts
from graftwork.protocol.sampling import MAX_CHOICES, SamplingFields

MAX_LOGPROBS = 5
MAX_PROMPTS = 128
DEFAULT_MAX_TOKENS = 16  # OpenAI's own default on this door


def _prompts(value: Any) -> tuple[OnePrompt, ...]:
    return read_prompts(value, most=MAX_PROMPTS)


class CompletionRequest(SamplingFields):
    """Plain completion: a prompt in, its continuation out; several prompts give several choices."""

    # `Any` where it is stored: the validator has already made it a tuple of prompts.
    prompt: Annotated[Any, BeforeValidator(_prompts, json_schema_input_type=PromptsGiven)]
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
    def token_limit(self) -> int | None:
        return self.max_tokens

    @property
    def usual_tokens(self) -> int | None:
        """How many tokens are meant where neither the request nor the adapter says; cut to what the context holds."""
        return DEFAULT_MAX_TOKENS

    @property
    def alternatives(self) -> int | None:
        return self.logprobs

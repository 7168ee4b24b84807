"""read_prompts: OpenAI's four shapes of a prompt, as the list of prompts that they mean."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

MAX_PROMPT_TOKENS = 1 << 20  # of all prompts given as token ids

OnePrompt = str | tuple[int, ...]

_TokenIds = Annotated[list[Annotated[int, Field(ge=0, lt=2**31)]], Field(min_length=1)]
#: How a prompt looks on the wire.
PromptsGiven = (
    str | _TokenIds | Annotated[list[str], Field(min_length=1)] | Annotated[list[_TokenIds], Field(min_length=1)]
)


def read_prompts(value: Any, *, most: int) -> tuple[OnePrompt, ...]:
    """A text, texts, token ids, or lists of token ids; at most `most` of them.

    Raises:
        ValueError: it is none of these, or too much.
    """
    if isinstance(value, str):
        return (value,)
    if isinstance(value, list) and value:
        _check_lengths(value, most)
        if all(isinstance(one, str) for one in value):
            return tuple(value)
        if _token_ids(value):
            return (tuple(value),)
        if all(isinstance(one, list) and one and _token_ids(one) for one in value):
            return tuple(tuple(one) for one in value)
    raise ValueError("must be a string, a non-empty list of token ids, or a non-empty list of either")


def _check_lengths(value: list[Any], most: int) -> None:
    prompts, tokens = len(value), sum(len(one) for one in value if isinstance(one, list))
    if type(value[0]) is int:
        prompts, tokens = 1, prompts
    if prompts > most:
        raise ValueError(f"has {prompts} prompts; at most {most} in one request")
    if tokens > MAX_PROMPT_TOKENS:
        raise ValueError(f"has {tokens} token ids; at most {MAX_PROMPT_TOKENS} in one request")


def _token_ids(value: list[Any]) -> bool:
    return all(type(one) is int and 0 <= one < 2**31 for one in value)

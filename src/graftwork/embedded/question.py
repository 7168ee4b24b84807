"""Question: what callers hand to an engine of their own, checked, and in the words of the rooms below. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graftwork.access.tenants import LOCAL
from graftwork.engine.request import Caller, ChatPrompt, Prompt
from graftwork.errors import InvalidRequest
from graftwork.protocol.adapters import MAX_ADAPTERS, MOST_PRIORITY, ScaledAdapter, read_salt
from graftwork.traffic.decision import Asked

#: A chat of one user message, a whole chat, or token ids to continue.
Input = str | Sequence[Mapping[str, Any]] | Sequence[int]
#: A reference; several with scales, which answer together; None is the base.
Adapter = str | Sequence[tuple[str, float]] | None


@dataclass(frozen=True)
class Wishes:
    """How something is to be generated: what is no field of `SamplingParams`, and the rest, unchecked."""

    companions: bool  #: whether the adapter's own template, tokens and defaults are used
    caller: Caller
    sampling: Mapping[str, Any]


def read_wishes(params: Mapping[str, Any]) -> Wishes:
    """The keyword arguments of `generate`; raises InvalidRequest."""
    rest = dict(params)
    own, salt = _use_own(rest.pop("companions", "adapter")), _salt(rest.pop("cache_salt", None))
    return Wishes(own, Caller(LOCAL, priority=_priority(rest.pop("priority", 0)), salt=salt), rest)


def read_adapter(given: Adapter) -> Asked:
    """Who should answer; raises InvalidRequest."""
    if given is None or isinstance(given, str):
        return Asked(adapter_id=given)
    return Asked(adapters=_pairs(given))


def read_prompt(given: Input) -> Prompt:
    """A text as a chat of one message, messages as they are, or token ids; raises InvalidRequest."""
    if isinstance(given, str):
        return ChatPrompt(({"role": "user", "content": given},))
    items = tuple(given) if isinstance(given, Sequence) and not isinstance(given, bytes | bytearray) else ()
    if not items:
        raise InvalidRequest("The prompt is empty, or not text.", field="prompt")
    if all(isinstance(item, Mapping) for item in items):
        return ChatPrompt(tuple(item for item in items if isinstance(item, Mapping)))
    if all(type(item) is int for item in items):
        return tuple(item for item in items if isinstance(item, int))
    raise InvalidRequest("A prompt is a text, a list of messages, or a list of token ids.", field="prompt")


def _use_own(companions: object) -> bool:
    if companions not in ("adapter", "base"):
        raise InvalidRequest(f"companions is {companions!r}; it must be 'adapter' or 'base'.", field="companions")
    return companions == "adapter"


def _salt(given: object) -> str:
    try:
        return read_salt(given) or ""
    except ValueError as error:
        raise InvalidRequest(f"cache_salt {error}.", field="cache_salt") from error


def _priority(given: object) -> int:
    if type(given) is not int or not -MOST_PRIORITY <= given < MOST_PRIORITY:
        raise InvalidRequest(f"priority is {given!r}; it must be a whole number of 32 bits.", field="priority")
    return given


def _pairs(adapters: Sequence[tuple[str, float]]) -> tuple[tuple[str, float], ...]:
    try:
        asked = [ScaledAdapter.model_validate({"ref": ref, "scale": scale}) for ref, scale in adapters]
        if len(asked) > MAX_ADAPTERS:
            raise ValueError(f"there are {len(asked)} of them; at most {MAX_ADAPTERS} answer together")
    except (TypeError, ValueError) as error:
        raise InvalidRequest(
            f"adapter is a reference, or a list of (reference, scale) pairs: {str(error).splitlines()[-1].strip()}",
            field="adapter",
        ) from error
    return tuple((one.ref, one.scale) for one in asked)

"""What a caller asks of the engine, and what comes back: values only, serialisable, no torch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from graftwork.engine.grammar import Grammar
from graftwork.engine.sampling_params import SamplingParams

FinishReason = Literal["stop", "length"]
#: What a row that generates nothing gives: the mean of its prompt's final hidden states, the last one, or the class
#: logits that its adapter's head gives to the last one.
Pooling = Literal["mean", "last", "classes"]


@dataclass(frozen=True)
class ChatPrompt:
    """Messages for the chat template: `{"role": ..., "content": ...}` each; and the tools that it is to tell of."""

    messages: tuple[Mapping[str, Any], ...]
    tools: tuple[Mapping[str, Any], ...] = ()


#: A conversation, a text, or token ids.
Prompt = ChatPrompt | str | tuple[int, ...]


@dataclass(frozen=True)
class AdapterHandle:
    """One adapter version: every cache keys it by `digest`; `label` (`name:1.4.0`) is for people.

    With `parts` it is a composition of these versions, each with its scale, under a digest of its own.
    """

    digest: str
    tenant: str
    label: str
    parts: tuple[tuple[AdapterHandle, float], ...] = ()


@dataclass(frozen=True)
class Caller:
    """Who a request is from, as far as the engine is concerned: whose share it counts in, and whose cache it reads.

    `weight` is the tenant's part of the machine beside other tenants (2.0 gets twice as much as 1.0). Inside a tenant,
    requests of a smaller `priority` go first. Requests share cached prompts only where tenant and `salt` are the same.
    """

    tenant: str = "local"
    weight: float = 1.0
    priority: int = 0
    salt: str = ""

    def __post_init__(self) -> None:
        assert 0 < self.weight < math.inf, "a weight is checked where it is set"


@dataclass(frozen=True)
class GenerationRequest:
    """One prompt to continue; `adapter` None means the base itself."""

    id: str
    prompt: Prompt
    params: SamplingParams
    adapter: AdapterHandle | None = None
    #: Whether the adapter's own chat template, tokens and stop tokens are used, where it carries some.
    companions: bool = True
    #: Tokens at most where neither `params` nor the adapter says; cut to what the context holds. None: all of that.
    usual_tokens: int | None = None
    caller: Caller = Caller()
    #: What the answer may be; None: anything.
    grammar: Grammar | None = None
    #: Tokens at most where `params` do not say, whatever the adapter says.
    most_tokens: int | None = None
    #: Whether it says that the adapter is wanted, so that it is kept and brought back; a copy does not.
    counts: bool = True


@dataclass(frozen=True)
class PoolingRequest:
    """One prompt to read and not to continue; `adapter` None means the base itself."""

    id: str
    prompt: str | tuple[int, ...]
    pooling: Pooling
    adapter: AdapterHandle | None = None
    #: Whether the tokens that the adapter adds to the tokenizer are used, where it carries some.
    companions: bool = True
    caller: Caller = Caller()


@dataclass(frozen=True)
class Pooled:
    """What a prompt became: [hidden_size] numbers, or one logit for each of `labels`; float32, not normalised."""

    values: tuple[float, ...]
    prompt_tokens: int
    labels: tuple[str, ...] = ()
    queued_s: float | None = field(default=None, compare=False)  #: as in `Delta`


@dataclass(frozen=True)
class TopLogprob:
    token_id: int
    token: str
    bytes: tuple[int, ...]
    logprob: float


@dataclass(frozen=True)
class TokenLogprob:
    """Log-probability of one token under the raw logits, and of the likeliest alternatives.

    `bytes` is its share of the text. Of a prompt's first token `logprob` is None: nothing comes before it. `rank`, from
    1, is given for a prompt's tokens only.
    """

    token_id: int
    token: str
    bytes: tuple[int, ...]
    logprob: float | None
    top: tuple[TopLogprob, ...] = ()
    rank: int | None = None


@dataclass(frozen=True)
class Delta:
    """What one step added to one answer; `text` is empty while a token is not printable yet.

    Of `prompt_tokens`, `cached_tokens` were computed for an earlier request and not again. With `echo` the first
    delta's `text` and `logprobs` begin with the prompt's. In the first delta only: `prompt_logprobs`, where asked for,
    and `queued_s`, the time from the end of encoding to the first step.
    """

    text: str
    token_ids: tuple[int, ...]
    logprobs: tuple[TokenLogprob, ...]
    finish_reason: FinishReason | None
    prompt_tokens: int
    completion_tokens: int
    prompt_logprobs: tuple[TokenLogprob, ...] | None = None
    cached_tokens: int = 0
    queued_s: float | None = field(default=None, compare=False)

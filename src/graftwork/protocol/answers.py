"""The answers of the inference doors, as /openapi.json describes them."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class Shape(BaseModel):
    """What a door answers with: these fields and no others. Doors write their bodies themselves, by the same names."""

    model_config = ConfigDict(extra="forbid", protected_namespaces=())


class ErrorInfo(Shape):
    """OpenAI's error; `param` is the field that is wrong, `problems` say why an adapter was refused."""

    message: str
    type: str
    param: str | None
    code: str
    problems: list[str] = Field(default_factory=list)


class OpenAIError(Shape):
    """Any error under /v1."""

    error: ErrorInfo


class PromptDetails(Shape):
    """Of the prompts' tokens, those that were there already."""

    cached_tokens: int


class Usage(Shape):
    """Tokens of all prompts and of all answers."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptDetails


class PromptUsage(Shape):
    """Tokens of all inputs."""

    prompt_tokens: int
    total_tokens: int


class SignedPart(Shape):
    """One of several adapters that answered together."""

    model: str
    digest: str
    scale: float


class DeprecatedPart(Shape):
    """A version that should no longer be used, why, since when, and when it is meant to go."""

    model: str
    message: str
    since: str
    until: str | None


class SessionPart(Shape):
    """What an answer did to what its session keeps to; `before` is the digest that it was released from."""

    state: Literal["began", "kept", "released"]
    #: How a rollout ended (`aborted`, `promoted`, `completed`, `superseded`), `weight`, `archived`, `forbidden`,
    #: `deleted` or `moved`; present where it was released, as `before` is.
    reason: str | None = None
    before: str | None = None


class Signed(Shape):
    """Who answered, and why that one; `version` is null where the base did."""

    request: str
    version: str | None
    digest: str
    route: str
    arm: str
    decision: str
    #: Of the task that asked, with its revision; absent where a request asked by itself.
    task: str | None = None
    #: Absent where the request has no session, or no route has decided.
    session: SessionPart | None = None
    revision: int | None = None
    rule: str | None = None
    adapters: list[SignedPart] = Field(default_factory=list)
    deprecated: list[DeprecatedPart] = Field(default_factory=list)


FinishReason = Literal["stop", "length", "tool_calls"]
#: vLLM's: of each token of the prompt the likeliest and itself, by id.
PromptLogprobs = list[dict[str, "RankedToken"] | None]


class RankedToken(Shape):
    """One token that might have stood somewhere in the prompt."""

    logprob: float | None
    rank: int
    decoded_token: str


class LikelyToken(Shape):
    """A token and its share of the text."""

    token: str
    logprob: float
    bytes: list[int]


class ChosenToken(LikelyToken):
    """A token of the answer, beside the likeliest in its place."""

    top_logprobs: list[LikelyToken]


class ChatLogprobs(Shape):
    """Log-probabilities of a message."""

    content: list[ChosenToken]
    refusal: None


class CalledFunction(Shape):
    """A function that the model wants called, with JSON for it."""

    name: str
    arguments: str


class CalledTool(Shape):
    """A call in a message."""

    id: str
    type: Literal["function"]
    function: CalledFunction


class AssistantMessage(Shape):
    """The assistant's next message."""

    role: Literal["assistant"]
    content: str | None
    refusal: None
    tool_calls: list[CalledTool] | None = None


class ChatChoice(Shape):
    """One of `n` messages."""

    index: int
    message: AssistantMessage
    logprobs: ChatLogprobs | None
    finish_reason: FinishReason


class ChatAnswer(Shape):
    """POST /v1/chat/completions, not streamed."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[ChatChoice]
    usage: Usage
    graftwork: Signed
    prompt_logprobs: PromptLogprobs | None = None


class TextLogprobs(Shape):
    """Log-probabilities of a text, token by token; the first of a prompt has none."""

    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None]
    text_offset: list[int]


class TextChoice(Shape):
    """One continuation of one prompt."""

    index: int
    text: str
    logprobs: TextLogprobs | None
    finish_reason: FinishReason
    prompt_logprobs: PromptLogprobs | None = None


class CompletionAnswer(Shape):
    """POST /v1/completions, not streamed."""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    choices: list[TextChoice]
    usage: Usage
    graftwork: Signed


class CalledPiece(Shape):
    """What a chunk adds to a call; its first one names the function."""

    name: str | None = None
    arguments: str


class CallPiece(Shape):
    """A call of a message, by its number, or more of its arguments."""

    index: int
    id: str | None = None
    type: Literal["function"] | None = None
    function: CalledPiece


class ChatDelta(Shape):
    """What a chunk adds to a message; the first one opens it with its role."""

    role: Literal["assistant"] | None = None
    content: str | None = None
    tool_calls: list[CallPiece] | None = None


class ChatChunkChoice(Shape):
    """A piece of one message."""

    index: int
    delta: ChatDelta
    logprobs: ChatLogprobs | None
    finish_reason: FinishReason | None


class TextChunkChoice(Shape):
    """A piece of one continuation."""

    index: int
    text: str
    logprobs: TextLogprobs | None
    finish_reason: FinishReason | None


class Chunk(Shape):
    """What every event of a stream has; the last ones say who answered, and the usage where it is asked for."""

    id: str
    created: int
    model: str
    usage: Usage | None = None
    graftwork: Signed | None = None


class ChatChunk(Chunk):
    """An event of a streamed chat."""

    object: Literal["chat.completion.chunk"]
    choices: list[ChatChunkChoice]


class CompletionChunk(Chunk):
    """An event of a streamed completion."""

    object: Literal["text_completion"]
    choices: list[TextChunkChoice]


class Embedding(Shape):
    """One input as numbers, or as base64 of little-endian float32."""

    object: Literal["embedding"]
    index: int
    embedding: list[float] | str


class EmbeddingAnswer(Shape):
    """POST /v1/embeddings."""

    object: Literal["list"]
    data: list[Embedding]
    model: str
    usage: PromptUsage
    graftwork: Signed


class Classified(Shape):
    """The likeliest class of one input."""

    index: int
    label: str
    probs: list[float]
    num_classes: int
    logits: list[float] | None = None


class ClassifyAnswer(Shape):
    """POST /v1/classify."""

    id: str
    object: Literal["list"]
    created: int
    model: str
    data: list[Classified]
    usage: Usage
    graftwork: Signed


class ModelInfo(Shape):
    """The base, or an adapter with the base as its parent."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    root: str
    parent: str | None
    graftwork: dict[str, Any] | None = None


class ModelList(Shape):
    """Everything that `model` may name."""

    object: Literal["list"]
    data: list[ModelInfo]

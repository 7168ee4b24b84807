"""AnswerShape: how one door writes an answer, whole or in chunks; `shapes.py` has the two that there are."""

from __future__ import annotations

import codecs
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from graftwork.engine.call_reader import CallPiece, CallReader
from graftwork.engine.request import Delta, TokenLogprob
from graftwork.gateway.signature import Signature


class TextOffset:
    """Where the next token begins in an answer's text, in characters; a character may take several tokens."""

    def __init__(self) -> None:
        self._decoder = _DECODER("replace")
        self._characters = 0

    def take(self, token: TokenLogprob) -> int:
        """The token's own beginning; the next one begins after it."""
        held = self._decoder.getstate()[0]
        begin = self._characters + (1 if held and _breaks(held, token.bytes) else 0)  # what is held reads as U+FFFD
        self._characters += len(self._decoder.decode(bytes(token.bytes)))
        return begin


_DECODER = codecs.getincrementaldecoder("utf-8")


def _breaks(held: bytes, following: Sequence[int]) -> bool:
    """Whether the part of a character that is held does not go on in what follows."""
    try:
        _DECODER("strict").decode(held + bytes(following[:1]))
    except UnicodeDecodeError:
        return True
    return False


@dataclass
class Choice:
    """One answer as it grows."""

    text: list[str] = field(default_factory=list)
    logprobs: list[TokenLogprob] = field(default_factory=list)
    prompt_logprobs: Sequence[TokenLogprob] | None = None
    finish_reason: str | None = None
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    offset: TextOffset = field(default_factory=TextOffset)
    #: Finds the calls of tools in it, where it may have some; `calls` has them as they grow, in OpenAI's shape.
    reader: CallReader | None = None
    calls: list[dict[str, Any]] = field(default_factory=list)

    def read(self, delta: Delta) -> list[Mapping[str, Any]]:
        """What a step adds to a message that may call tools, as OpenAI's deltas."""
        assert self.reader is not None, "tools were offered"
        pieces = self.reader.push(delta.text, end=delta.finish_reason is not None)
        return [_delta(piece) for piece in pieces]

    def finish(self, reason: str | None) -> str | None:
        """Why it ended, in OpenAI's words: a whole call is a reason of its own."""
        called = self.reader is not None and self.reader.calls
        return "tool_calls" if called and reason == "stop" else reason

    def add(self, delta: Delta) -> None:
        if self.reader is None:
            self.text.append(delta.text)
        else:
            for one in self.read(delta):
                self._grow(one)
        self.logprobs.extend(delta.logprobs)
        self.prompt_logprobs = self.prompt_logprobs or delta.prompt_logprobs
        self.finish_reason = self.finish(delta.finish_reason) or self.finish_reason
        self.count(delta)

    def count(self, delta: Delta) -> None:
        """Take over the numbers of tokens, which every step tells."""
        self.prompt_tokens, self.completion_tokens = delta.prompt_tokens, delta.completion_tokens
        self.cached_tokens = delta.cached_tokens

    def _grow(self, delta: Mapping[str, Any]) -> None:
        self.text.append(delta.get("content", ""))
        for call in delta.get("tool_calls", ()):
            if "id" in call:
                self.calls.append({key: call[key] for key in ("id", "type", "function")})
            else:
                self.calls[call["index"]]["function"]["arguments"] += call["function"]["arguments"]


def _delta(piece: CallPiece) -> Mapping[str, Any]:
    if piece.call is None:
        return {"content": piece.text}
    if piece.name is None:
        return {"tool_calls": [{"index": piece.call, "function": {"arguments": piece.text}}]}
    function = {"name": piece.name, "arguments": piece.text}
    return {"tool_calls": [{"index": piece.call, "id": piece.id, "type": "function", "function": function}]}


def usage_of(choices: Sequence[Choice], choices_per_prompt: int = 1) -> dict[str, Any]:
    """Tokens of each prompt, once, and of all completions."""
    firsts = choices[::choices_per_prompt]
    prompt = sum(choice.prompt_tokens for choice in firsts)
    completion = sum(choice.completion_tokens for choice in choices)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": sum(choice.cached_tokens for choice in firsts)},
    }


class AnswerShape(Protocol):
    """The differences between the doors."""

    id_prefix: str
    object: str
    chunk_object: str

    def choice(self, index: int, choice: Choice, *, logprobs: bool) -> Mapping[str, Any]:
        """A whole choice of an answer that is not streamed."""
        ...

    def beside(self, choices: Sequence[Choice]) -> Mapping[str, Any]:
        """What such an answer says of its choices outside of them."""
        ...

    def opening(self, index: int) -> Mapping[str, Any] | None:
        """The choice in the chunk that opens an answer, if the door has one."""
        ...

    def piece(self, index: int, text_json: str, logprobs_json: str, finish_json: str) -> str:
        """The choice in a chunk, as JSON text; its parts are JSON already."""
        ...

    def logprobs(self, entries: Sequence[TokenLogprob], offset: TextOffset) -> Mapping[str, Any]:
        """Log probabilities of the next tokens; `offset` moves past them."""
        ...


@dataclass(frozen=True)
class Envelope:
    """What all chunks of one answer, or its whole body, have in common."""

    shape: AnswerShape
    signature: Signature
    choices_per_prompt: int = 1
    created: int = field(default_factory=lambda: int(time.time()))

    @property
    def id(self) -> str:
        return f"{self.shape.id_prefix}-{self.signature.request_id}"

    def whole(self, choices: Sequence[Choice], *, logprobs: bool) -> dict[str, Any]:
        """The body of an answer that is not streamed."""
        return {
            **self._head(self.shape.object),
            "choices": [self.shape.choice(index, choice, logprobs=logprobs) for index, choice in enumerate(choices)],
            **self.shape.beside(choices),
            "usage": self.usage(choices),
            "graftwork": self.signature.to_json(),
        }

    def usage(self, choices: Sequence[Choice]) -> dict[str, Any]:
        """Tokens of each prompt, once, and of all completions."""
        return usage_of(choices, self.choices_per_prompt)

    def chunk(self, choices: Sequence[Mapping[str, Any]], **extra: object) -> bytes:
        return event({**self._head(self.shape.chunk_object), "choices": list(choices), **extra})

    def around_choice(self) -> tuple[str, str]:
        """The text before and after the one choice of an ordinary chunk: written once, not per token."""
        text = json.dumps({**self._head(self.shape.chunk_object), "choices": []})
        return f"data: {text[: -len(']}')]}", "]}\n\n"

    def _head(self, kind: str) -> dict[str, Any]:
        return {"id": self.id, "object": kind, "created": self.created, "model": self.signature.model}


def event(body: Mapping[str, Any]) -> bytes:
    """One server-sent event."""
    return f"data: {json.dumps(body)}\n\n".encode()


DONE = b"data: [DONE]\n\n"

"""CHAT and TEXT: the answer shapes of /v1/chat/completions and /v1/completions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from graftwork.engine.request import TokenLogprob, TopLogprob
from graftwork.gateway.answer_shape import AnswerShape, Choice, TextOffset


class _Chat:
    id_prefix = "chatcmpl"
    object = "chat.completion"
    chunk_object = "chat.completion.chunk"

    def choice(self, index: int, choice: Choice, *, logprobs: bool) -> Mapping[str, Any]:
        return {
            "index": index,
            "message": {"role": "assistant", "content": "".join(choice.text), "refusal": None},
            "logprobs": self.logprobs(choice.logprobs, choice.offset) if logprobs else None,
            "finish_reason": choice.finish_reason,
        }

    def opening(self, index: int) -> Mapping[str, Any] | None:
        delta = {"role": "assistant", "content": ""}
        return {"index": index, "delta": delta, "logprobs": None, "finish_reason": None}

    def piece(self, index: int, text_json: str, logprobs_json: str, finish_json: str) -> str:
        delta = "{}" if text_json == '""' else f'{{"content": {text_json}}}'
        rest = f'"logprobs": {logprobs_json}, "finish_reason": {finish_json}'
        return f'{{"index": {index}, "delta": {delta}, {rest}}}'

    def logprobs(self, entries: Sequence[TokenLogprob], offset: TextOffset) -> Mapping[str, Any]:
        return {
            "content": [{**_entry(one), "top_logprobs": [_entry(other) for other in one.top]} for one in entries],
            "refusal": None,
        }


class _Text:
    id_prefix = "cmpl"
    object = "text_completion"
    chunk_object = "text_completion"

    def choice(self, index: int, choice: Choice, *, logprobs: bool) -> Mapping[str, Any]:
        return {
            "index": index,
            "text": "".join(choice.text),
            "logprobs": self.logprobs(choice.logprobs, choice.offset) if logprobs else None,
            "finish_reason": choice.finish_reason,
        }

    def opening(self, index: int) -> Mapping[str, Any] | None:
        return None

    def piece(self, index: int, text_json: str, logprobs_json: str, finish_json: str) -> str:
        rest = f'"logprobs": {logprobs_json}, "finish_reason": {finish_json}'
        return f'{{"index": {index}, "text": {text_json}, {rest}}}'

    def logprobs(self, entries: Sequence[TokenLogprob], offset: TextOffset) -> Mapping[str, Any]:
        return {
            "tokens": [_key(one) for one in entries],
            "token_logprobs": [one.logprob for one in entries],
            "top_logprobs": [_by_token(one) for one in entries],
            "text_offset": [offset.take(one) for one in entries],
        }


def _by_token(one: TokenLogprob) -> dict[str, float]:
    """The alternatives and the token itself; where two tokens read the same, the likelier."""
    found: dict[str, float] = {}
    tokens: list[TokenLogprob | TopLogprob] = [*one.top, one]
    for other in tokens:
        key = _key(other)
        found[key] = max(found.get(key, other.logprob), other.logprob)
    return found


def _key(one: TokenLogprob | TopLogprob) -> str:
    """The token's text, or its bytes where it is only part of a character: OpenAI's `bytes:\\xf0\\x9f`."""
    try:
        bytes(one.bytes).decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in one.bytes)
    return one.token


def _entry(one: Any) -> dict[str, Any]:
    return {"token": one.token, "logprob": one.logprob, "bytes": list(one.bytes)}


CHAT: AnswerShape = _Chat()
TEXT: AnswerShape = _Text()

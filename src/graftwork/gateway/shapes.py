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
        text, calls = "".join(choice.text), {"tool_calls": choice.calls} if choice.calls else {}
        return {
            "index": index,
            "message": {"role": "assistant", "content": text or (None if calls else ""), "refusal": None, **calls},
            "logprobs": self.logprobs(choice.logprobs, choice.offset) if logprobs else None,
            "finish_reason": choice.finish_reason,
        }

    def beside(self, choices: Sequence[Choice]) -> Mapping[str, Any]:
        return _prompt_logprobs(choices[0])

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
            **_prompt_logprobs(choice),
        }

    def beside(self, choices: Sequence[Choice]) -> Mapping[str, Any]:
        return {}

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


def _by_token(one: TokenLogprob) -> dict[str, float] | None:
    """The alternatives and the token itself; where two tokens read the same, the likelier. None at a prompt's start."""
    if one.logprob is None:
        return None
    found: dict[str, float] = {}
    for other in one.top:
        found.setdefault(_key(other), other.logprob)
    found.setdefault(_key(one), one.logprob)
    return found


def _prompt_logprobs(choice: Choice) -> dict[str, Any]:
    """vLLM's field, where asked for: of each prompt token the likeliest and itself, by id; the first has none."""
    if choice.prompt_logprobs is None:
        return {}
    return {"prompt_logprobs": [_ranked(one) if one.rank else None for one in choice.prompt_logprobs]}


def _ranked(one: TokenLogprob) -> dict[str, Any]:
    ranked: list[tuple[int | None, TokenLogprob | TopLogprob]] = [*enumerate(one.top, 1), (one.rank, one)]
    return {
        str(token.token_id): {"logprob": token.logprob, "rank": rank, "decoded_token": token.token}
        for rank, token in ranked
    }


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

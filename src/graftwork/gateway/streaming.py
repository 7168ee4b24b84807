"""Answers: writes the pieces of a generation as one body, or as server-sent events while they come."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from graftwork.engine.request import Delta
from graftwork.gateway.answer_shape import DONE, Choice, Envelope
from graftwork.gateway.errors import sse_error
from graftwork.gateway.generation import Piece

_NULL = "null"


async def whole(
    pieces: AsyncGenerator[Piece, None], envelope: Envelope, choices: list[Choice], *, logprobs: bool
) -> dict[str, Any]:
    """The body of an answer with these choices, which are empty so far; raises what the engine raises."""
    async with aclosing(pieces):
        async for index, delta in pieces:
            choices[index].add(delta)
    return envelope.whole(choices, logprobs=logprobs)


async def events(
    first: Piece,
    rest: AsyncGenerator[Piece, None],
    envelope: Envelope,
    choices: list[Choice],
    *,
    logprobs: bool,
    include_usage: bool,
) -> AsyncGenerator[bytes, None]:
    """The answer as events; a failure midway is the last of them."""
    writer = _Writer(envelope, logprobs=logprobs, include_usage=include_usage)
    try:
        async with aclosing(rest):
            for index in range(len(choices)):
                if opening := writer.opening(index):
                    yield opening
            if written := writer.piece(choices, first):
                yield written
            async for piece in rest:
                if written := writer.piece(choices, piece):
                    yield written
    except Exception as error:
        yield sse_error(error)
        return
    if include_usage:
        yield envelope.chunk([], usage=envelope.usage(choices), graftwork=envelope.signature.to_json())
    yield DONE


class _Writer:
    """Writes chunks; what does not change between tokens is written once."""

    def __init__(self, envelope: Envelope, *, logprobs: bool, include_usage: bool) -> None:
        self._envelope = envelope
        self._shape = envelope.shape
        self._logprobs = logprobs
        self._usage: dict[str, Any] = {"usage": None} if include_usage else {}
        self._before, after = envelope.around_choice()
        self._after = f'], "usage": null}}{after[2:]}' if include_usage else after
        self._last = f'], "graftwork": {json.dumps(envelope.signature.to_json())}{self._after[1:]}'

    def opening(self, index: int) -> bytes | None:
        choice = self._shape.opening(index)
        return self._envelope.chunk([choice], **self._usage) if choice is not None else None

    def piece(self, choices: list[Choice], piece: Piece) -> bytes | None:
        """One chunk, or None where there is nothing to show yet."""
        index, delta = piece
        choice = choices[index]
        choice.count(delta)
        if choice.reader is not None:
            return self._calls(index, choice, delta)
        if not (delta.text or delta.finish_reason or (self._logprobs and delta.logprobs)):
            return None
        logprobs = _NULL
        if self._logprobs and delta.logprobs:
            logprobs = json.dumps(self._shape.logprobs(delta.logprobs, choice.offset))
        finish = f'"{delta.finish_reason}"' if delta.finish_reason else _NULL
        body = self._shape.piece(index, json.dumps(delta.text), logprobs, finish)
        return f"{self._before}{body}{self._last if delta.finish_reason else self._after}".encode()

    def _calls(self, index: int, choice: Choice, delta: Delta) -> bytes | None:
        """The chunks of a step that may call tools: one for each thing that it adds."""
        deltas = choice.read(delta)
        if not deltas and not delta.finish_reason and not (self._logprobs and delta.logprobs):
            return None
        chunks: list[str] = []
        logprobs = self._shape.logprobs(delta.logprobs, choice.offset) if self._logprobs and delta.logprobs else None
        for one in deltas or [{}]:
            body = {"index": index, "delta": one, "logprobs": logprobs, "finish_reason": None}
            logprobs = None
            if len(chunks) + 1 >= len(deltas):
                body["finish_reason"] = choice.finish(delta.finish_reason)
            after = self._last if body["finish_reason"] else self._after
            chunks.append(f"{self._before}{json.dumps(body)}{after}")
        return "".join(chunks).encode()

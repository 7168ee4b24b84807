"""Answer and AnswerStream: what the inference doors give back, whole or while it comes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx

from graftwork.errors import Unavailable
from graftwork.protocol.errors import error_from

Json = dict[str, Any]
Part = TypeVar("Part", str, bytes)


@dataclass(frozen=True)
class Answer:
    """One answer: its text, who gave it (`model` is `name:1.4.0` or the base's name) and how it ended."""

    text: str
    model: str
    finish_reason: str | None
    usage: Mapping[str, Any]
    #: Version, digest, route, arm and decision, as in the X-Graftwork headers.
    graftwork: Mapping[str, Any]
    #: Calls of tools, in OpenAI's shape.
    tool_calls: tuple[Mapping[str, Any], ...] = ()

    @property
    def cached_tokens(self) -> int:
        """Tokens of the prompt that were computed for an earlier request; 0 where the server does not say."""
        return int((self.usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0)


class AnswerStream:
    """The pieces of an answer while they come; then `answer` is the whole. Closing it stops the generation.

    >>> with client.chat("Hello", model="support-tone", stream=True) as stream:  # doctest: +SKIP
    ...     for text in stream:
    ...         print(text, end="", flush=True)
    """

    def __init__(self, response: httpx.Response) -> None:
        self._response = response
        self._parts: list[str] = []
        self._last: Json = {}
        self._finish: str | None = None
        self._usage: Mapping[str, Any] = {}
        self._calls: list[Json] = []

    def __iter__(self) -> Iterator[str]:
        for line in translated(self._response.iter_lines()):
            if not line.startswith("data: ") or line == "data: [DONE]":
                continue
            chunk = json.loads(line.removeprefix("data: "))
            if "error" in chunk:
                raise error_from(500, chunk)
            text = self._take(chunk)
            if text:
                yield text

    def _take(self, chunk: Json) -> str:
        self._last = {
            **self._last,
            **{key: value for key, value in chunk.items() if key in ("model", "graftwork")},
        }
        self._usage = chunk.get("usage") or self._usage
        text = ""
        for choice in chunk["choices"]:
            text += choice["delta"].get("content") or "" if "delta" in choice else choice["text"]
            self._take_calls(choice.get("delta", {}).get("tool_calls", ()))
            self._finish = choice["finish_reason"] or self._finish
        self._parts.append(text)
        return text

    def _take_calls(self, deltas: Sequence[Json]) -> None:
        for one in deltas:
            if "id" in one:
                self._calls.append({key: value for key, value in one.items() if key != "index"})
            else:
                self._calls[one["index"]]["function"]["arguments"] += one["function"]["arguments"]

    @property
    def answer(self) -> Answer:
        """What has come so far."""
        last = self._last
        return Answer(
            "".join(self._parts),
            last.get("model", ""),
            self._finish,
            self._usage,
            last.get("graftwork", {}),
            tuple(self._calls),
        )

    def close(self) -> None:
        self._response.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def translated(parts: Iterator[Part]) -> Iterator[Part]:
    """The same parts of an answer; raises Unavailable where the connection breaks."""
    try:
        yield from parts
    except httpx.TransportError as error:
        raise Unavailable(f"The connection broke while the answer came: {error}.") from error

"""ask_all: the demo's requests, all under way at once, each timed as it streams."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from typing import Any

import httpx

from graftwork.cli.demo_plan import Question
from graftwork.errors import GraftworkError
from graftwork.protocol.errors import error_from

TIMEOUT_S = 300.0


async def ask_all(url: str, questions: Sequence[Question], *, base: str, max_tokens: int) -> list[dict[str, Any]]:
    """One answer per question, in their order; `error` says why where none came."""
    limits = httpx.Limits(max_connections=len(questions))
    async with httpx.AsyncClient(base_url=url, timeout=TIMEOUT_S, limits=limits) as http:
        return list(await asyncio.gather(*(_ask(http, question, base, max_tokens) for question in questions)))


async def _ask(http: httpx.AsyncClient, question: Question, base: str, max_tokens: int) -> dict[str, Any]:
    body = {
        "model": question.adapter or base,
        "messages": [{"role": "user", "content": question.prompt}],
        "temperature": 0,
        "max_tokens": max_tokens,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    timed = _Timed(body["model"])
    try:
        async with http.stream("POST", "/v1/chat/completions", json=body) as response:
            if response.is_error:
                raise error_from(response.status_code, json.loads(await response.aread()))
            async for line in response.aiter_lines():
                if line.startswith("data: {"):
                    timed.take(json.loads(line.removeprefix("data: ")))
    except (GraftworkError, httpx.HTTPError, ValueError) as error:
        timed.error = str(error) or type(error).__name__
    return {"prompt": question.prompt, "adapter": _name(question), **timed.to_json()}


def _name(question: Question) -> str | None:
    return question.adapter.partition(":")[0] if question.adapter else None


class _Timed:
    """An answer and its clock."""

    def __init__(self, model: Any) -> None:
        self.model = str(model)
        self.error: str | None = None
        self._text: list[str] = []
        self._signature: dict[str, Any] = {}
        self._tokens = 0
        self._began = time.perf_counter()
        self._first = self._last = 0.0

    def take(self, chunk: dict[str, Any]) -> None:
        if "error" in chunk:
            raise error_from(500, chunk)
        self.model = chunk["model"]
        self._signature = chunk.get("graftwork") or self._signature
        self._tokens = (chunk.get("usage") or {}).get("completion_tokens", self._tokens)
        text = "".join(choice["delta"].get("content") or "" for choice in chunk["choices"])
        if text:
            self._first = self._first or time.perf_counter()
            self._text.append(text)
        self._last = time.perf_counter()

    def to_json(self) -> dict[str, Any]:
        elapsed = self._last - self._began
        if not self._signature and self.error is None:
            self.error = "the answer broke off"
        return {
            "model": self.model,
            "version": self._signature.get("version"),
            "digest": self._signature.get("digest", ""),
            "text": "".join(self._text),
            "ttft_ms": round(1000 * (self._first - self._began), 1) if self._first else 0.0,
            "tokens_per_s": round(self._tokens / elapsed, 1) if elapsed > 0 else 0.0,
            "completion_tokens": self._tokens,
            "error": self.error,
        }

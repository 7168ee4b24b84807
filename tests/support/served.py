"""Served: an app on a fake engine and a real registry, in this process, for tests of every door."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from fastapi import FastAPI

from graftwork.client import Client, InProcessTransport
from graftwork.gateway.app import build_app
from graftwork.settings import Settings
from graftwork.testing import FakeEngine, write_lora

CHAT = "/v1/chat/completions"
HELLO = [{"role": "user", "content": "hello big world"}]


def usage(prompt: int, completion: int, cached: int = 0) -> dict[str, Any]:
    """What an answer says of its tokens."""
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": cached},
    }


@dataclass(frozen=True)
class Served:
    """One app and what speaks to it."""

    app: FastAPI
    engine: FakeEngine
    client: Client
    http: httpx.Client
    folder: Path

    def push(self, reference: str, *, seed: int = 0) -> dict[str, Any]:
        """Register a random adapter; other seeds are other bytes."""
        return self.client.push(write_lora(self.folder / f"lora-{seed}", self.engine.outline, seed=seed), reference)

    def chat(self, **fields: Any) -> httpx.Response:
        return self.http.post(CHAT, json={"messages": HELLO, **fields})

    def events(self, path: str = CHAT, **fields: Any) -> list[dict[str, Any]]:
        """The events of a streamed answer, which must end with [DONE] or an error."""
        body = {**({"messages": HELLO} if path == CHAT else {}), **fields, "stream": True}
        response = self.http.post(path, json=body)
        assert response.status_code == 200, response.text
        assert response.headers["content-type"].startswith("text/event-stream")
        lines = [line.removeprefix("data: ") for line in response.text.split("\n\n") if line]
        if lines[-1] == "[DONE]":
            lines.pop()
        else:
            assert "error" in json.loads(lines[-1])
        return [json.loads(line) for line in lines]


@contextmanager
def serving(settings: Settings, folder: Path, engine: FakeEngine | None = None) -> Iterator[Served]:
    """The app of `settings` on `engine`, started."""
    engine = engine or FakeEngine()
    app = build_app(settings, engine=engine, outline_of=lambda: engine.outline)
    transport = InProcessTransport(app)
    with httpx.Client(transport=transport, base_url="http://test") as http:
        yield Served(app, engine, Client(http=http), http, folder)

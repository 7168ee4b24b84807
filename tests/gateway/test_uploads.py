"""Uploads: a client that dawdles holds no thread and is let go; nothing of it stays."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from graftwork.gateway import request_body
from graftwork.gateway.app import build_app
from graftwork.settings import Settings
from graftwork.testing import fake_outline

DATA = b"x" * 3_000_000
DIGEST = f"sha256:{hashlib.sha256(DATA).hexdigest()}"


class Upload:
    """One PUT whose client sends what it is told to, when it is told to."""

    def __init__(self, app: FastAPI, digest: str = DIGEST) -> None:
        self.begun, self.chunks = asyncio.Event(), asyncio.Queue[bytes]()
        self.status = 0
        scope = {
            "type": "http",
            "method": "PUT",
            "path": f"/api/v1/blobs/{digest}",
            "raw_path": b"",
            "query_string": b"",
            "headers": [(b"host", b"localhost"), (b"content-type", b"application/octet-stream")],
        }
        self.task = asyncio.create_task(app(scope, self._receive, self._send))

    async def _receive(self) -> MutableMapping[str, Any]:
        self.begun.set()
        chunk = await self.chunks.get()
        return {"type": "http.request", "body": chunk, "more_body": bool(chunk)}

    async def _send(self, message: MutableMapping[str, Any]) -> None:
        self.status = message.get("status", self.status)


@pytest.fixture
def app(settings: Settings) -> FastAPI:
    return build_app(settings, outline_of=fake_outline)


async def test_many_idle_uploads_leave_the_registry_answering(app: FastAPI, settings: Settings) -> None:
    uploads = [Upload(app) for _ in range(60)]
    for upload in uploads:
        upload.chunks.put_nowait(DATA[:2_000_000])
        await upload.begun.wait()
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
        answer = await asyncio.wait_for(client.get("/api/v1/adapters"), 5)
    assert answer.status_code == 200
    for chunk in (DATA[2_000_000:], b""):
        uploads[0].chunks.put_nowait(chunk)
    await uploads[0].task
    assert uploads[0].status == 201
    for upload in uploads[1:]:
        upload.task.cancel()
    await asyncio.gather(*(upload.task for upload in uploads), return_exceptions=True)
    assert [path.name for path in files_in(settings.home)] == [DIGEST.removeprefix("sha256:")]


async def test_a_client_that_stops_sending_is_let_go(
    app: FastAPI, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_body, "IDLE_S", 0.02)
    upload = Upload(app)
    upload.chunks.put_nowait(DATA[:10])
    await upload.task
    assert upload.status == 408
    assert files_in(settings.home) == []


def files_in(home: Path) -> list[Path]:
    """Every file of a home beside its database."""
    return [path for path in home.rglob("*") if path.is_file() and not path.name.startswith("graftwork.db")]

"""append: each byte of an upload is written once, however it ends."""

from __future__ import annotations

import asyncio
import io
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from graftwork.gateway.spool import append


class Slow(io.BytesIO):
    """A file whose first write takes as long as one likes."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.go_on = threading.Event(), threading.Event()

    def write(self, data: bytes) -> int:  # type: ignore[override]
        self.begun.set()
        self.go_on.wait(10)
        return super().write(data)


async def test_what_is_being_written_when_the_client_leaves_is_written_once(tmp_path: Path) -> None:
    file, piece = Slow(), b"x" * (1 << 20)

    async def chunks() -> AsyncIterator[bytes]:
        yield piece
        yield b"never asked for"

    task = asyncio.create_task(append(file, chunks(), tmp_path))
    await asyncio.to_thread(file.begun.wait, 10)
    task.cancel()
    file.go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    while len(file.getvalue()) < len(piece):
        await asyncio.sleep(0.01)
    assert file.getvalue() == piece

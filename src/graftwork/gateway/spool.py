"""spooled: an upload on its way into the store; it waits for its client on the event loop, never in a thread."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import IO

from graftwork.errors import Unavailable

_CHUNK_BYTES = 1 << 20


@asynccontextmanager
async def spooled(chunks: AsyncIterator[bytes], folder: Path) -> AsyncGenerator[Iterator[bytes], None]:
    """All of `chunks` from a file in `folder` that has no name and is gone afterwards, whatever happens.

    Raises:
        Unavailable: it cannot be written.
    """
    with _translated(folder):
        file = await asyncio.to_thread(_nameless, folder)
    with file:
        with _translated(folder):
            await _write(file, chunks)
        yield _read(file)


@contextmanager
def _translated(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise Unavailable(f"The upload cannot be written at {folder}: {error.strerror}.") from error


def _nameless(folder: Path) -> IO[bytes]:
    return tempfile.TemporaryFile(dir=folder)


async def _write(file: IO[bytes], chunks: AsyncIterator[bytes]) -> None:
    gathered = bytearray()
    async for chunk in chunks:
        gathered += chunk
        if len(gathered) >= _CHUNK_BYTES:
            await asyncio.to_thread(file.write, gathered)
            gathered = bytearray()
    await asyncio.to_thread(file.write, gathered)


def _read(file: IO[bytes]) -> Iterator[bytes]:
    file.seek(0)
    while chunk := file.read(_CHUNK_BYTES):
        yield chunk

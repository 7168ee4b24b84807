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
        await append(file, chunks, folder)
        yield _read(file)


async def append(file: IO[bytes], chunks: AsyncIterator[bytes], folder: Path) -> int:
    """Write `chunks` to the end of a file in `folder`, also those that came before they broke off; its size then.

    Raises:
        Unavailable: it cannot be written.
    """
    with _translated(folder):
        await _write(file, chunks)
        return file.tell()


@contextmanager
def _translated(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise Unavailable(f"The upload cannot be written at {folder}: {error.strerror}.") from error


def _nameless(folder: Path) -> IO[bytes]:
    folder.mkdir(parents=True, exist_ok=True)  # where database and artifacts lie elsewhere, nothing else has made it
    return tempfile.TemporaryFile(dir=folder)


async def _write(file: IO[bytes], chunks: AsyncIterator[bytes]) -> None:
    gathered = bytearray()
    try:
        async for chunk in chunks:
            gathered += chunk
            if len(gathered) >= _CHUNK_BYTES:
                piece, gathered = gathered, bytearray()  # written once, however the wait for it ends
                await asyncio.to_thread(file.write, piece)
    finally:
        await asyncio.to_thread(file.write, gathered)


def _read(file: IO[bytes]) -> Iterator[bytes]:
    file.seek(0)
    while chunk := file.read(_CHUNK_BYTES):
        yield chunk

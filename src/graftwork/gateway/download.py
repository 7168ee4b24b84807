"""download: stored bytes as an answer that no browser runs, whole or the range that was asked for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import Final
from urllib.parse import quote

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from graftwork.errors import Unavailable

#: Media types that are told; a page, a drawing or a script of somebody's is bytes and nothing else.
TOLD: Final = frozenset(
    {"application/json", "application/yaml", "image/jpeg", "image/png", "text/csv", "text/markdown", "text/plain"}
)
BYTES: Final = "application/octet-stream"
#: For whatever looks at the bytes instead of the headers.
HARMLESS: Final = {"x-content-type-options": "nosniff", "content-security-policy": "sandbox; default-src 'none'"}
_RANGE = re.compile(r"bytes=([0-9]{0,19})-([0-9]{0,19})", re.ASCII)
_CHUNK_BYTES = 1 << 20


async def download(
    request: Request, chunks: Iterator[bytes], *, size: int, digest: str, name: str, media_type: str, folder: Path
) -> Response:
    """The blob, or a range of it; nothing is sent before all of it was verified, whatever the range.

    Args:
        chunks: of the whole blob, as `BlobStore.open` gives them.
        folder: where what is longer than a mebibyte waits until it is verified, without a name.

    Raises:
        Damaged: the stored bytes are. Unavailable: they cannot be read, or kept meanwhile.
        HTTPException: 416, the range lies behind the end.
    """
    headers = {
        **HARMLESS,
        "accept-ranges": "bytes",
        "etag": f'"{digest}"',
        "content-disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}",
    }
    if f'"{digest}"' in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    wanted = _range(request, size, headers["etag"])
    start, stop = wanted or (0, size)
    file = await run_in_threadpool(_copied, chunks, start, stop, folder)
    headers["content-length"] = str(stop - start)
    headers["content-type"] = media_type if media_type in TOLD else BYTES
    if wanted is not None:
        headers["content-range"] = f"bytes {start}-{stop - 1}/{size}"
    return _FromFile(file, 200 if wanted is None else 206, headers)


def _range(request: Request, size: int, etag: str) -> tuple[int, int] | None:
    """First byte and the one behind the last; None for the whole, also where several ranges are asked for."""
    asked = _RANGE.fullmatch(request.headers.get("range", "").strip())
    if asked is None or asked.groups() == ("", "") or request.headers.get("if-range", etag) != etag:
        return None
    first, last = asked.groups()
    if not first:
        start, stop = max(0, size - int(last)), size
    else:
        start, stop = int(first), min(size, int(last) + 1) if last else size
        if last and int(last) < start:
            return None
    if start >= size or start >= stop:
        raise HTTPException(416, "The range lies behind the end", {"content-range": f"bytes */{size}"})
    return start, stop


def _copied(chunks: Iterator[bytes], start: int, stop: int, folder: Path) -> SpooledTemporaryFile[bytes]:
    """The bytes from `start` to before `stop`, after all of `chunks` was read."""
    file = SpooledTemporaryFile(_CHUNK_BYTES, dir=str(folder))  # noqa: SIM115 - closed by who reads it
    position = 0
    try:
        for chunk in chunks:
            file.write(memoryview(chunk)[max(0, start - position) : max(0, stop - position)])
            position += len(chunk)
        file.seek(0)
    except BaseException as error:
        file.close()
        if isinstance(error, OSError):
            raise Unavailable(f"The answer cannot be kept at {folder}: {error.strerror}.") from error
        raise
    return file


class _FromFile(StreamingResponse):
    """The bytes of a file, which is closed however the answer ends: also when nobody reads any of it."""

    def __init__(self, file: SpooledTemporaryFile[bytes], status: int, headers: Mapping[str, str]) -> None:
        super().__init__(iter(partial(file.read, _CHUNK_BYTES), b""), status, headers)
        self._file = file

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._file:
            await super().__call__(scope, receive, send)

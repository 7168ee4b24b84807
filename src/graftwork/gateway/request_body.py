"""Reads a request's body: of the right type, up to a limit, and not for ever."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TypeVar

from starlette.requests import ClientDisconnect, Request

from graftwork.errors import InvalidRequest
from graftwork.gateway.disconnect import ClientGone
from graftwork.protocol.body import Body

AnyBody = TypeVar("AnyBody", bound=Body)

JSON = "application/json"
BYTES = "application/octet-stream"

#: Longest wait for the next bytes of a body, in seconds.
IDLE_S = 30.0
#: Bodies larger than this, in bytes, are parsed beside the event loop.
_PARSED_AT_ONCE = 64 << 10


class WrongBody(InvalidRequest):
    """What is wrong is the body as a whole; each way has a status of its own."""

    status = 400


class BodyTooLarge(WrongBody):
    """The request body is larger than this server takes."""

    status = 413

    def __init__(self, limit: int, setting: str) -> None:
        super().__init__(f"The request body is larger than {limit} bytes, the most this server takes ({setting}).")


class BodyTooSlow(WrongBody):
    """The client stopped sending before the end."""

    status = 408

    def __init__(self) -> None:
        super().__init__(f"No more of the request body came within {IDLE_S:g} seconds.")


class WrongMediaType(WrongBody):
    """The body is not said to be what this door takes: web pages of other sites could send it unasked."""

    status = 415

    def __init__(self, wanted: str) -> None:
        super().__init__(f"The request body must be {wanted}; say so in the header Content-Type.")


async def read_json(request: Request, limit: int, body: type[AnyBody], *, absent: bytes = b"") -> AnyBody:
    """The whole body as a `body`; no bytes at all are read as `absent`. `request.state.body_bytes` says how many came.

    Raises:
        BodyTooLarge: it has, or says that it has, more than `limit` bytes.
        BodyTooSlow: the client sent nothing for a while.
        WrongMediaType: it is not said to be JSON.
        InvalidRequest: it is not a `body`.
        ClientGone: the client closed the connection before the end.
    """
    raw = bytearray()
    async for chunk in limited(request, limit, "max_body_bytes"):
        raw += chunk
    request.state.body_bytes = len(raw)
    if raw:
        check_media_type(request, JSON)
    if len(raw) > _PARSED_AT_ONCE:
        return await asyncio.to_thread(body.read, raw)
    return body.read(raw or absent)


async def limited(request: Request, limit: int, setting: str, *, before: int = 0) -> AsyncIterator[bytes]:
    """The body's chunks as they arrive, of which `before` bytes came earlier; raises like `read_json`."""
    claimed = request.headers.get("content-length", "")
    if before + (int(claimed) if claimed.isdecimal() else 0) > limit:
        raise BodyTooLarge(limit, setting)
    stream, total = request.stream(), before
    while (chunk := await _next(stream)) is not None:
        total += len(chunk)
        if total > limit:
            raise BodyTooLarge(limit, setting)
        if chunk:
            yield chunk


def check_media_type(request: Request, wanted: str) -> None:
    """Raises WrongMediaType unless the body is said to be `wanted`."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != wanted:
        raise WrongMediaType(wanted)


async def _next(stream: AsyncIterator[bytes]) -> bytes | None:
    try:
        async with asyncio.timeout(IDLE_S):
            return await anext(stream, None)
    except TimeoutError:
        raise BodyTooSlow from None
    except ClientDisconnect:
        raise ClientGone from None

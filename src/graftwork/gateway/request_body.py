"""Reads a request's body, up to a limit."""

from __future__ import annotations

from collections.abc import AsyncIterator

from starlette.requests import ClientDisconnect, Request

from graftwork.errors import InvalidRequest
from graftwork.gateway.disconnect import ClientGone


class BodyTooLarge(InvalidRequest):
    """The request body is larger than this server takes; answered with 413."""

    def __init__(self, limit: int, setting: str) -> None:
        super().__init__(f"The request body is larger than {limit} bytes, the most this server takes ({setting}).")


async def read_body(request: Request, limit: int) -> bytearray:
    """The whole body.

    Raises:
        BodyTooLarge: it has, or says that it has, more than `limit` bytes.
        ClientGone: the client closed the connection before the end.
    """
    body = bytearray()
    async for chunk in limited(request, limit, "max_body_bytes"):
        body += chunk
    return body


async def limited(request: Request, limit: int, setting: str) -> AsyncIterator[bytes]:
    """The body's chunks as they arrive; raises like `read_body`."""
    claimed = request.headers.get("content-length", "")
    if claimed.isdecimal() and int(claimed) > limit:
        raise BodyTooLarge(limit, setting)
    total = 0
    try:
        async for chunk in request.stream():
            total += len(chunk)
            if total > limit:
                raise BodyTooLarge(limit, setting)
            if chunk:
                yield chunk
    except ClientDisconnect:
        raise ClientGone from None

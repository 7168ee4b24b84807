"""refuse_foreign_origin: a web page of another site cannot change what is served here, even on loopback."""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.exceptions import HTTPException
from starlette.requests import Request

_READING = frozenset({"GET", "HEAD", "OPTIONS"})


async def refuse_foreign_origin(request: Request) -> None:
    """Raises a 403 for a change that a browser sends for a page which is not from this server."""
    origin = request.headers.get("origin")
    if request.method in _READING or origin is None:
        return
    if urlsplit(origin).netloc != request.headers.get("host"):
        raise HTTPException(403, "Web pages of other sites may not do this")

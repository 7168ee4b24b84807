"""RequestScope: the outermost layer: a request id, the last catch of errors, the HTTP metrics."""

from __future__ import annotations

import logging
import time
import uuid
from urllib.parse import parse_qsl

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from graftwork.access.request_id import request_scope
from graftwork.errors import GraftworkError, InvalidRequest
from graftwork.gateway.errors import answer_error
from graftwork.telemetry import OTHER, Telemetry

log = logging.getLogger(__name__)

REQUEST_HEADER = b"x-graftwork-request"


class RequestScope:
    """Gives each HTTP request an id in `scope["state"]["request_id"]`, in its answer's headers and in its events."""

    def __init__(self, app: ASGIApp, telemetry: Telemetry) -> None:
        self._app = app
        self._telemetry = telemetry

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = uuid.uuid4().hex
        scope.setdefault("state", {})["request_id"] = request_id
        began, status = time.perf_counter(), 0

        async def send_signed(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), (REQUEST_HEADER, request_id.encode())]
            await send(message)

        try:
            if (wrong := _wrong_in(scope)) is not None:
                await answer_error(scope["path"], wrong)(scope, receive, send_signed)
                return
            with request_scope(request_id):
                await self._app(scope, receive, send_signed)
        except Exception as error:
            if status and isinstance(error.__cause__, GraftworkError):  # the end of a stream that nobody can tell
                log.warning("request %s broke off: %s", request_id, error.__cause__.message)
            else:
                log.exception("request %s failed", request_id)
            if not status:
                await answer_error(scope["path"], error)(scope, receive, send_signed)
        finally:
            self._measure(scope, status, time.perf_counter() - began)

    def _measure(self, scope: Scope, status: int, seconds: float) -> None:
        # The route's template, never the path itself: a label must not grow with what callers make up.
        door = getattr(scope.get("route"), "path", OTHER)
        self._telemetry.http_requests.labels(door, str(status)).inc()
        self._telemetry.http_seconds.labels(door).observe(seconds)


def _wrong_in(scope: Scope) -> InvalidRequest | None:
    """What no URL of our API may have in it, wherever it leads."""
    if not scope["path"].startswith("/api/"):
        return None
    if b"%2f" in scope.get("raw_path", b"").lower():  # what its caller took for one name would be read as several
        return InvalidRequest("No name in this path may have a slash in it, not written as %2F either.")
    query = parse_qsl(scope.get("query_string", b"").decode(errors="replace"), keep_blank_values=True)
    for field, text in ((None, scope["path"]), *query):
        if "\0" in text:
            return InvalidRequest(f"{field or 'The path'} holds a NUL character, which no database takes.", field=field)
    return None

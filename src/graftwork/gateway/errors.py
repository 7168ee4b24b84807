"""Turns every error into an answer: OpenAI-shaped on /v1, problem+json elsewhere, and never a stack trace."""

from __future__ import annotations

import json
import logging
import re
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match

from graftwork.errors import (
    Forbidden,
    GraftworkError,
    Held,
    InvalidRequest,
    Refused,
    RouteRefused,
    Unauthenticated,
    Unavailable,
    UnknownModel,
)
from graftwork.gateway.disconnect import ClientGone
from graftwork.gateway.request_body import WrongBody
from graftwork.protocol.body import complaint
from graftwork.protocol.errors import Kind, kind_of, openai_error, problem

log = logging.getLogger(__name__)

#: Doors whose errors are OpenAI's: those of inference, also below a route.
_OPENAI = re.compile(r"(/r/[^/]+)?/v1(/|$)")
CLIENT_CLOSED_REQUEST = 499  # nobody reads it; it is for the metrics


def install(app: FastAPI) -> None:
    """Answer every kind of error that a handler of `app` may raise."""
    app.add_exception_handler(GraftworkError, _graftwork_error)
    app.add_exception_handler(ClientGone, _client_gone)
    app.add_exception_handler(HTTPException, _http_exception)
    app.add_exception_handler(RequestValidationError, _validation_error)


def answer_error(path: str, error: BaseException) -> Response:
    """The answer that `error` becomes at `path`."""
    kind = kind_of(error)
    if not isinstance(error, GraftworkError):
        message = "Something went wrong on the server; its log says what, under this answer's X-Graftwork-Request."
        return _answer(path, kind.status, kind, message)
    if kind.status >= 500:
        log.warning("%s: %s", type(error).__name__, error.message)
    status = error.status if isinstance(error, WrongBody | RouteRefused) else kind.status
    extra: dict[str, Any] = {}
    if isinstance(error, InvalidRequest):
        extra["field"] = error.field
    elif isinstance(error, UnknownModel):
        extra["field"] = "model"
    elif isinstance(error, Forbidden | Refused):
        extra["problems"] = list(error.problems)
    elif isinstance(error, Held):
        extra["holders"] = list(error.holders)
    answer = _answer(path, status, kind, error.message, **extra)
    if isinstance(error, Unavailable):
        answer.headers["retry-after"] = str(error.retry_after_s)
    elif isinstance(error, Unauthenticated):
        answer.headers["www-authenticate"] = "Bearer"
    return answer


def sse_error(error: BaseException) -> bytes:
    """The event that ends a stream which fails midway."""
    kind = kind_of(error)
    if isinstance(error, GraftworkError):
        message = error.message
    else:
        log.error("a stream failed", exc_info=error)
        message = "Something went wrong on the server; its log says what."
    body = openai_error(message, kind, param=error.field if isinstance(error, InvalidRequest) else None)
    return b"data: " + json.dumps(body).encode() + b"\n\n"


def _answer(path: str, status: int, kind: Kind, message: str, **extra: Any) -> Response:
    if _OPENAI.match(path):
        body, media = openai_error(message, kind, param=extra.get("field")), "application/json"
        if extra.get("problems"):
            body["error"]["problems"] = extra["problems"]
    else:
        body, media = problem(message, kind, status=status, **extra), "application/problem+json"
    return Response(json.dumps(body, default=str), status, media_type=media)


async def _graftwork_error(request: Request, error: Exception) -> Response:
    request.state.error = error  # for the record of the answer
    return answer_error(request.url.path, error)


async def _client_gone(_request: Request, _error: Exception) -> Response:
    return Response(status_code=CLIENT_CLOSED_REQUEST)


async def _http_exception(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException), "registered for it"
    kind = Kind(
        GraftworkError,
        error.status_code,
        _code(error.status_code),
        "invalid_request_error",
        str(error.detail),
    )
    message = f"{error.detail}: {request.method} {request.url.path[:200]}"
    answer = _answer(request.url.path, error.status_code, kind, message)
    answer.headers.update(error.headers or {})
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        answer.headers["allow"] = ", ".join(_allowed(request))  # of all doors at this path, not of the first
    return answer


def _allowed(request: Request) -> list[str]:
    """The methods of all doors at the path by which the request was found, as it is described."""
    routes: list[BaseRoute] = request.app.routes
    paths = [getattr(route, "path", None) for route in routes if route.matches(request.scope)[0] is Match.PARTIAL]
    methods = [getattr(route, "methods", None) or () for route in routes if getattr(route, "path", None) in paths[:1]]
    return sorted(set().union(*methods))


async def _validation_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError), "registered for it"
    first = error.errors()[0]
    field = ".".join(str(part) for part in first["loc"][1:])
    kind = Kind(GraftworkError, 400, "invalid_request", "invalid_request_error", "Invalid request")
    return _answer(request.url.path, 400, kind, f"{field} {complaint(first)}.", field=field)


def _code(status: int) -> str:
    return HTTPStatus(status).phrase.lower().replace(" ", "_")

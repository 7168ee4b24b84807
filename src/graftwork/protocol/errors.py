"""ERRORS: one table from error type to HTTP status and code; servers write by it and clients read by it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from graftwork.errors import (
    Conflict,
    Damaged,
    Forbidden,
    GenerationFailed,
    GraftworkError,
    Held,
    InvalidMetadata,
    InvalidRequest,
    InvalidResource,
    NotFound,
    PreconditionFailed,
    QuotaExhausted,
    Refused,
    RouteRefused,
    TimedOut,
    TooManyRequests,
    Unauthenticated,
    Unavailable,
    UnknownModel,
    UnreadableAnswer,
)


@dataclass(frozen=True)
class Kind:
    """How one type of error looks on the wire."""

    error: type[GraftworkError]
    status: int
    code: str
    type: str
    title: str


#: More special types first: the first line that an error is an instance of is the one.
ERRORS: tuple[Kind, ...] = (
    Kind(Unauthenticated, 401, "invalid_api_key", "invalid_request_error", "Unauthenticated"),
    Kind(UnknownModel, 404, "model_not_found", "invalid_request_error", "Not found"),
    Kind(NotFound, 404, "not_found", "invalid_request_error", "Not found"),
    Kind(InvalidMetadata, 422, "invalid_metadata", "invalid_request_error", "Invalid metadata"),
    Kind(InvalidResource, 422, "invalid_resource", "invalid_request_error", "Invalid resource"),
    Kind(InvalidRequest, 400, "invalid_request", "invalid_request_error", "Invalid request"),
    Kind(PreconditionFailed, 412, "precondition_failed", "conflict_error", "Precondition failed"),
    Kind(Held, 409, "held", "conflict_error", "Held"),
    Kind(Conflict, 409, "conflict", "conflict_error", "Conflict"),
    Kind(Forbidden, 403, "forbidden", "permission_error", "Forbidden"),
    Kind(UnreadableAnswer, 422, "unreadable_answer", "unreadable_answer_error", "Unreadable answer"),
    Kind(RouteRefused, 403, "route_refused", "permission_error", "Refused by the route"),
    Kind(Refused, 422, "refused", "invalid_request_error", "Refused"),
    Kind(QuotaExhausted, 429, "insufficient_quota", "insufficient_quota", "Quota exhausted"),
    Kind(TooManyRequests, 429, "rate_limit_exceeded", "rate_limit_error", "Too many requests"),
    Kind(Unavailable, 503, "unavailable", "server_error", "Unavailable"),
    Kind(Damaged, 500, "damaged", "server_error", "Damaged"),
    Kind(TimedOut, 504, "timed_out", "server_error", "Timed out"),
    Kind(GenerationFailed, 500, "generation_failed", "server_error", "Generation failed"),
    Kind(GraftworkError, 500, "internal_error", "server_error", "Internal error"),
)

INTERNAL = ERRORS[-1]


def kind_of(error: BaseException) -> Kind:
    """The line of the table for `error`; anything foreign is an internal error."""
    return next((kind for kind in ERRORS if isinstance(error, kind.error)), INTERNAL)


def openai_error(message: str, kind: Kind, *, param: str | None = None) -> dict[str, Any]:
    """The body of an error on /v1."""
    return {"error": {"message": message, "type": kind.type, "param": param, "code": kind.code}}


def problem(message: str, kind: Kind, *, status: int, **extra: object) -> dict[str, Any]:
    """The body of an error on /api/v1: RFC 9457 with our `code` and whatever helps."""
    body = {
        "type": "about:blank",
        "title": kind.title,
        "status": status,
        "detail": message,
        "code": kind.code,
    }
    return body | {key: value for key, value in extra.items() if value}


def error_from(status: int, body: object, *, retry_after: str | None = None) -> GraftworkError:
    """The error that a server's answer stands for; the way back through the table.

    Args:
        retry_after: the answer's header of that name; of its two forms the one in seconds is read.
    """
    shape: Mapping[str, Any] = body if isinstance(body, Mapping) else {}
    inner = shape.get("error")
    if isinstance(inner, Mapping):
        shape = {"detail": inner.get("message"), "code": inner.get("code"), "field": inner.get("param")}
    message = str(shape.get("detail") or f"The server answered {status}.")
    found = [kind for kind in ERRORS if kind.code == shape.get("code")]
    found = found or [kind for kind in reversed(ERRORS) if kind.status == status]
    if not found and 400 <= status < 500:
        return InvalidRequest(message)
    error = _made((found or [INTERNAL])[0].error, message, shape)
    if isinstance(error, UnreadableAnswer) and isinstance(body, Mapping):
        error.text = str(body.get("text", ""))
    if isinstance(error, RouteRefused):
        error.status = status
    if isinstance(error, Unavailable) and retry_after is not None and re.fullmatch("[0-9]{1,9}", retry_after):
        error.retry_after_s = int(retry_after)
    return error


def _made(error: type[GraftworkError], message: str, shape: Mapping[str, Any]) -> GraftworkError:
    if issubclass(error, InvalidRequest):
        return error(message, field=shape.get("field"))
    if error in (Forbidden, Refused):
        return error(message, problems=tuple(map(str, shape.get("problems") or ())))
    if error is Held:
        return Held(message, holders=[one for one in shape.get("holders") or () if isinstance(one, Mapping)])
    if error is UnknownModel:  # its constructor takes the reference; the message is already made
        unknown = UnknownModel("")
        unknown.args = (message,)
        return unknown
    return error(message)

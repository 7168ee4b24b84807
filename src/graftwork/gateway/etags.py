"""ETags: of what an answer shows, and what a request's If-Match and If-None-Match say it must be."""

from __future__ import annotations

import re
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse

from graftwork.errors import InvalidRequest
from graftwork.protocol.canonical import sha256
from graftwork.registry.pointers import ABSENT, PRESENT
from graftwork.registry.versions import Version

#: All of ours are digests, so that none is taken for ABSENT or PRESENT.
_TAG = re.compile(r'"(sha256:[0-9a-f]{64})"', re.ASCII)


def tagged(body: dict[str, Any], etag: str | None = None) -> JSONResponse:
    """An answer with its ETag; without one of its own, that of what it says."""
    answer = JSONResponse(body)
    answer.headers["etag"] = f'"{etag or sha256(bytes(answer.body).decode())}"'
    return answer


def tagged_version(version: Version) -> JSONResponse:
    return tagged(version.to_json(), version.etag)


def expected_of(request: Request, said: str | None = None) -> str | None:
    """What the thing must be now: its ETag, ABSENT, PRESENT, or None where nobody says.

    Args:
        said: what the body says of it.

    Raises:
        InvalidRequest: the headers name several tags, or another than the body.
    """
    found = {said, _if_match(request), _if_none_match(request)} - {None}
    if len(found) > 1:
        raise InvalidRequest(
            "If-Match, If-None-Match and `expected` say different things; give one of them.", field="If-Match"
        )
    return found.pop() if found else None


def _if_match(request: Request) -> str | None:
    match = request.headers.get("if-match")
    if match is None:
        return None
    if match.strip() == "*":
        return PRESENT
    if (tag := _TAG.fullmatch(match.strip())) is None:
        raise InvalidRequest('If-Match must be * or one ETag as it was given, such as "sha256:…".', field="If-Match")
    return tag[1]


def _if_none_match(request: Request) -> str | None:
    match = request.headers.get("if-none-match")
    if match is None:
        return None
    if match.strip() != "*":
        raise InvalidRequest("If-None-Match must be *: that there is none yet.", field="If-None-Match")
    return ABSENT

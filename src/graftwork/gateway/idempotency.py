"""once_of: what the header Idempotency-Key of a request means."""

from __future__ import annotations

import re

from starlette.requests import Request

from graftwork.errors import InvalidRequest
from graftwork.protocol.body import Body
from graftwork.protocol.canonical import canonical, sha256
from graftwork.registry.idempotency import Once

_KEY = re.compile(r"[\x21-\x7e]{1,255}")


def once_of(request: Request, body: Body) -> Once | None:
    """Key and fingerprint of the request; None where it has no key.

    Raises:
        InvalidRequest: the key is empty, longer than 255 characters, or more than visible ASCII.
    """
    key = request.headers.get("idempotency-key")
    if key is None:
        return None
    if not _KEY.fullmatch(key):
        raise InvalidRequest(
            "The Idempotency-Key must be 1 to 255 visible ASCII characters, such as a UUID.", field="Idempotency-Key"
        )
    said = {"method": request.method, "path": request.url.path, "body": body.model_dump(mode="json")}
    return Once(key, sha256(canonical(said, what="body")))

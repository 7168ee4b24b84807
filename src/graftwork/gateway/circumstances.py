"""circumstances_of: what the rules of routes look at, from a request and its body."""

from __future__ import annotations

from starlette.requests import Request

from graftwork.access.access import Access
from graftwork.access.clock import utc_now
from graftwork.errors import InvalidRequest
from graftwork.gateway.proxies import region_of
from graftwork.gateway.services import principal_of
from graftwork.protocol.adapters import MAX_WORD, AdapterFields
from graftwork.traffic.routes.circumstances import Circumstances
from graftwork.traffic.routes.locales import read_accept_language


def circumstances_of(request: Request, access: Access, body: AdapterFields | None = None) -> Circumstances:
    """Who asks, how and when; `access` is of the snapshot that the request is decided on.

    Raises:
        InvalidRequest: body and header name different sessions, or the header's is too long.
    """
    principal, headers = principal_of(request), request.headers
    accepted = read_accept_language(headers.get("accept-language", ""))
    said = (body.locale,) if body is not None and body.locale is not None else ()
    return Circumstances(
        tenant=principal.tenant,
        user=principal.user,
        key=principal.key,
        session=_session(headers.get("x-session-id") or None, body.session_id if body is not None else None),
        task=body.task if body is not None else None,
        locales=(*said, *accepted),
        region=region_of(request) or access.tenant(principal.tenant).home_region or None,
        headers=headers,
        now=utc_now(),
        request=request.state.request_id,
    )


def route_of(request: Request) -> str | None:
    """The route at whose own door a request came."""
    return request.path_params.get("route")


def _session(by_header: str | None, by_body: str | None) -> str | None:
    if by_header is not None and len(by_header) > MAX_WORD:
        raise InvalidRequest(f"The header X-Session-Id must have at most {MAX_WORD} characters.", field="session_id")
    if by_header is not None and by_body is not None and by_header != by_body:
        raise InvalidRequest(
            "session_id and the header X-Session-Id are different. Give one of them, or the same in both.",
            field="session_id",
        )
    return by_body or by_header

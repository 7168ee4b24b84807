"""The doors of routes under /api/v1: list, show, set, remove, revisions, rollback, explain."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Depends, Query
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from graftwork.access.access import Access
from graftwork.access.clock import read_time
from graftwork.errors import InvalidResource
from graftwork.gateway.circumstances import circumstances_of
from graftwork.gateway.etags import expected_of, tagged
from graftwork.gateway.idempotency import once_of
from graftwork.gateway.openapi import ours
from graftwork.gateway.origin import refuse_foreign_origin
from graftwork.gateway.request_body import read_json
from graftwork.gateway.services import actor_of, services_of, tenant_of
from graftwork.protocol.registry import MAX_REASON
from graftwork.protocol.route_answers import (
    ExplainBody,
    Explanation,
    RevisionList,
    RouteAnswer,
    RouteList,
    RouteRollbackBody,
)
from graftwork.protocol.routes import RouteResource
from graftwork.traffic.explanation import explain, unresolved
from graftwork.traffic.rollouts.live import LiveRollouts
from graftwork.traffic.routes.circumstances import Circumstances
from graftwork.traffic.routes.locales import read_accept_language
from graftwork.traffic.routes.route import Route
from graftwork.traffic.routes.table import RouteTable

router = APIRouter(tags=["routes"], dependencies=[Depends(refuse_foreign_origin)], default_response_class=Response)

MAX_PAGE = 1000
_MOST = 2**53 - 1
PageSize = Annotated[int, Query(ge=1, le=MAX_PAGE)]
PageToken = Annotated[str, Query(max_length=128)]
ReasonQuery = Annotated[str | None, Query(max_length=MAX_REASON)]


@router.get("/routes", openapi_extra=ours({200: RouteList}, errors=(400,)))
async def list_routes(request: Request, page_size: PageSize = 100, page_token: PageToken = "") -> Response:
    """Routes by name, page by page."""
    routes = services_of(request).routes
    page = await run_in_threadpool(routes.list, tenant_of(request), page_size=page_size, page_token=page_token)
    items = await run_in_threadpool(lambda: [_told(request, one) for one in page.items])
    return JSONResponse({"routes": items, "next_page_token": page.next_page_token})


@router.get("/routes/{name}", openapi_extra=ours({200: RouteAnswer}, errors=(400, 404)))
async def show_route(
    request: Request, name: str, revision: Annotated[int | None, Query(ge=1, le=_MOST)] = None
) -> Response:
    """The live revision of a route, or another one; its ETag is the revision's digest, for `If-Match`."""
    found = await run_in_threadpool(services_of(request).routes.show, tenant_of(request), name, revision)
    return tagged(_told(request, found), found.revision.digest)


@router.put(
    "/routes/{name}",
    openapi_extra=ours({200: RouteAnswer, 201: RouteAnswer}, body=RouteResource, errors=(409, 412, 422)),
)
async def set_route(request: Request, name: str, reason: ReasonQuery = None) -> Response:
    """Make a document the live revision: 201 where the route is new, else 200; what is live already changes nothing."""
    services = services_of(request)
    body = await read_json(request, services.settings.max_body_bytes, RouteResource)
    if body.metadata.name != name:
        raise InvalidResource(
            f"metadata.name is {body.metadata.name!a}, and the path names {name!a}.", field="metadata.name"
        )
    route, created = await run_in_threadpool(
        services.routes.set,
        tenant_of(request),
        name,
        body.spec,
        expected=expected_of(request),
        actor=actor_of(request),
        reason=reason,
    )
    answer = tagged(_told(request, route), route.revision.digest)
    if created:
        answer.status_code = 201
        answer.headers["location"] = f"/api/v1/routes/{quote(name)}"
    return answer


@router.delete("/routes/{name}", status_code=204, openapi_extra=ours({204: None}, errors=(400, 403, 404, 412)))
async def remove_route(request: Request, name: str, reason: ReasonQuery = None) -> Response:
    """Take a route away; its revisions stay, and an adapter of its name is reached by that name again."""
    await run_in_threadpool(
        services_of(request).routes.remove,
        tenant_of(request),
        name,
        expected=expected_of(request),
        actor=actor_of(request),
        reason=reason,
    )
    return Response(status_code=204)


@router.get("/routes/{name}/revisions", openapi_extra=ours({200: RevisionList}, errors=(400, 404)))
async def list_revisions(
    request: Request, name: str, page_size: PageSize = 100, page_token: PageToken = ""
) -> Response:
    """All revisions that a route ever had, the newest first, page by page; also of one that was removed."""
    routes = services_of(request).routes
    page = await run_in_threadpool(
        routes.revisions, tenant_of(request), name, page_size=page_size, page_token=page_token
    )
    items = await run_in_threadpool(lambda: [_told(request, one) for one in page.items])
    return JSONResponse({"revisions": items, "next_page_token": page.next_page_token})


@router.post(
    "/routes/{name}/rollback",
    openapi_extra=ours({200: RouteAnswer}, body=RouteRollbackBody, errors=(404, 409, 412)),
)
async def rollback_route(request: Request, name: str) -> Response:
    """Make the revision live that was it before, or the one that the body names."""
    services = services_of(request)
    body = await read_json(request, services.settings.max_body_bytes, RouteRollbackBody, absent=b"{}")
    route = await run_in_threadpool(
        services.routes.rollback,
        tenant_of(request),
        name,
        revision=body.revision,
        expected=expected_of(request, body.expected),
        actor=actor_of(request),
        reason=body.reason,
        once=once_of(request, body),
    )
    return tagged(_told(request, route), route.revision.digest)


@router.post("/routes/{name}/explain", openapi_extra=ours({200: Explanation}, body=ExplainBody, errors=(404,)))
async def explain_route(request: Request, name: str) -> Response:
    """What a route would decide of a request: which rule, why none before it, and which arm. Implicit routes too."""
    services, tenant = services_of(request), tenant_of(request)
    body = await read_json(request, services.settings.max_body_bytes, ExplainBody, absent=b"{}")
    snapshot = await run_in_threadpool(services.snapshots.current)
    seen = _as_if(circumstances_of(request, snapshot.part(Access)), body)
    routes = snapshot.part(RouteTable)
    asked: dict[str, Any] = {"tenant": tenant, "base": services.base, "versions": snapshot, "routes": routes}
    asked["rollouts"] = snapshot.part(LiveRollouts)
    return JSONResponse(await run_in_threadpool(explain, name, seen, **asked))


def _as_if(seen: Circumstances, body: ExplainBody) -> Circumstances:
    said = body.model_dump(include={"task", "user", "key", "session", "region"}, exclude_none=True)
    headers = {name.lower(): value for name, value in body.headers.items()}
    accepted = body.locale if body.locale is not None else headers.get("accept-language")
    if accepted is not None:
        said["locales"] = read_accept_language(accepted)
    if body.at is not None:
        said["now"] = datetime.fromisoformat(read_time(body.at, field="at"))
    return replace(seen, **said, headers={**dict(seen.headers), **headers})


def _told(request: Request, route: Route) -> dict[str, Any]:
    services, made = services_of(request), route.revision
    snapshot = services.snapshots.current()
    problems = unresolved(route, tenant=route.tenant, base=services.base, versions=snapshot)
    condition = {
        "type": "TargetsResolve",
        "status": "False" if problems else "True",
        "reason": "NoVersion" if problems else "Resolved",
        "message": "; ".join(problems[:20]),
    }
    status = {
        "revision": made.number,
        "live": route.live,
        "digest": made.digest,
        "createdAt": made.created_at,
        "createdBy": made.created_by,
        "reason": made.reason,
        "conditions": [condition],
    }
    return {**route.to_json(), "status": status}

"""The doors of routes under /api/v1: those of any resource, and explain."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

from fastapi import APIRouter, Depends
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from graftwork.access.access import Access
from graftwork.access.clock import read_time
from graftwork.gateway.circumstances import circumstances_of
from graftwork.gateway.openapi import ours
from graftwork.gateway.origin import refuse_foreign_origin
from graftwork.gateway.request_body import read_json
from graftwork.gateway.resources import ResourceDoors
from graftwork.gateway.services import Services, services_of, tenant_of
from graftwork.protocol.resource_answers import RouteAnswer, RouteList, RouteRevisions
from graftwork.protocol.route_explanation import ExplainBody, Explanation
from graftwork.traffic.explanation import explain, unresolved
from graftwork.traffic.rollouts.live import LiveRollouts
from graftwork.traffic.routes.circumstances import Circumstances
from graftwork.traffic.routes.locales import read_accept_language
from graftwork.traffic.routes.route import Route
from graftwork.traffic.routes.routes import ROUTE
from graftwork.traffic.routes.table import RouteTable

router = APIRouter(tags=["routes"], dependencies=[Depends(refuse_foreign_origin)], default_response_class=Response)


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


def _status(services: Services, route: Route) -> dict[str, Any]:
    """Whether its targets mean versions now."""
    problems = unresolved(route, tenant=route.tenant, base=services.base, versions=services.snapshots.current())
    condition = {
        "type": "TargetsResolve",
        "status": "False" if problems else "True",
        "reason": "NoVersion" if problems else "Resolved",
        "message": "; ".join(problems[:20]),
    }
    return {"conditions": [condition]}


ResourceDoors(
    "/routes", ROUTE, lambda services: services.routes, RouteAnswer, RouteList, RouteRevisions, _status
).add_to(router)

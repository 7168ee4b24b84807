"""The doors of shadows under /api/v1: how copies differed from answers, one by one and in a report."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from graftwork.access.clock import read_time
from graftwork.errors import NotFound
from graftwork.gateway.openapi import ours
from graftwork.gateway.services import services_of, tenant_of
from graftwork.protocol.shadows import CopyOutcome, DiffList, ShadowReport
from graftwork.traffic.routes.table import RouteTable
from graftwork.traffic.shadows.diffs import Wanted

router = APIRouter(tags=["shadows"], default_response_class=Response)

DEFAULT_PAGE, MAX_PAGE = 100, 1000
Name = Annotated[str | None, Query(max_length=2048)]
Time = Annotated[str | None, Query(max_length=64)]


@router.get("/shadows", openapi_extra=ours({200: DiffList}, errors=(400, 404)))
async def list_shadows(
    request: Request,
    route: Name = None,
    rollout: Name = None,
    arm: Name = None,
    digest: Name = None,
    outcome: Annotated[CopyOutcome | None, Query()] = None,
    exact: Annotated[bool | None, Query()] = None,
    since: Time = None,
    until: Time = None,
    page_size: int = Query(DEFAULT_PAGE, ge=1, le=MAX_PAGE),
    page_token: str = Query("", max_length=256),
) -> Response:
    """How copies of the caller's requests differed from their answers, the newest first, page by page."""
    services, (after, before) = services_of(request), _times(since, until)
    wanted = Wanted(
        route=route,
        rollout=rollout,
        arm=arm,
        shadow_digest=digest,
        outcome=outcome,
        exact=exact,
        since=after,
        until=before,
    )
    await services.shadowing.flush()
    page = await run_in_threadpool(
        services.books.diffs.page, tenant_of(request), wanted, page_size=page_size, page_token=page_token
    )
    if route is not None and not page.items:
        await _check_route(request, route)
    found = [one.to_json() for one in page.items]
    return JSONResponse({"shadows": found, "next_page_token": page.next_page_token})


@router.get("/shadows/report", openapi_extra=ours({200: ShadowReport}, errors=(400, 404)))
async def report(
    request: Request,
    route: Annotated[str, Query(min_length=1, max_length=2048)],
    rollout: Name = None,
    since: Time = None,
    until: Time = None,
) -> Response:
    """What the copies of a route's requests say of each pair of versions; of more than 100,000 the newest."""
    services, (after, before) = services_of(request), _times(since, until)
    wanted = Wanted(route=route, rollout=rollout, since=after, until=before)
    await services.shadowing.flush()
    pairs = await run_in_threadpool(services.books.diffs.report, tenant_of(request), wanted)
    if not pairs:
        await _check_route(request, route)
    return JSONResponse({"route": route, "pairs": pairs})


async def _check_route(request: Request, route: str) -> None:
    """Raises NotFound for a route that is not there and of which no copy is left, whatever else was asked for."""
    services, tenant = services_of(request), tenant_of(request)
    snapshot = services.snapshots.current()
    if snapshot.part(RouteTable).find(tenant, route) is not None or route in snapshot.names(tenant):
        return
    left = await run_in_threadpool(services.books.diffs.page, tenant, Wanted(route=route), page_size=1)
    if not left.items:
        raise NotFound(
            f"There is no route {route[:128]}, and no adapter of that name; `graftwork route list` has those."
        )


def _times(since: str | None, until: str | None) -> tuple[str | None, str | None]:
    return (
        read_time(since, field="since") if since else None,
        read_time(until, field="until") if until else None,
    )

"""The doors of lineage under /api/v1/lineage: what a node stands on, what stands on it, and facts to add."""

from __future__ import annotations

from fastapi import APIRouter, Depends, Query
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from graftwork.gateway.openapi import ours
from graftwork.gateway.origin import refuse_foreign_origin
from graftwork.gateway.request_body import read_json
from graftwork.gateway.services import actor_of, services_of, tenant_of
from graftwork.protocol.lineage import MAX_NODE, Direction, EdgeAnswer, EdgeBody, ImpactAnswer, LineageAnswer
from graftwork.registry.lineage.lineage import MAX_DEPTH, MAX_PAGE_SIZE

router = APIRouter(
    prefix="/lineage",
    tags=["lineage"],
    dependencies=[Depends(refuse_foreign_origin)],
    default_response_class=Response,
)

DEFAULT_PAGE = 100


@router.get("", openapi_extra=ours({200: LineageAnswer}, errors=(400, 404)))
async def show_lineage(
    request: Request,
    node: str = Query(max_length=MAX_NODE),
    direction: Direction = Query("upstream"),
    depth: int | None = Query(None, ge=1, le=MAX_DEPTH),
    limit: int = Query(MAX_PAGE_SIZE, ge=1, le=MAX_PAGE_SIZE),
) -> Response:
    """What a node stands on, what stands on it, or both: the nearest `limit` nodes each way."""
    graph = await run_in_threadpool(
        services_of(request).lineage.graph, tenant_of(request), node, direction, depth=depth, limit=limit
    )
    return JSONResponse(graph.to_json())


@router.get("/impact", openapi_extra=ours({200: ImpactAnswer}, errors=(400, 404)))
async def show_impact(
    request: Request,
    node: str = Query(max_length=MAX_NODE),
    depth: int | None = Query(None, ge=1, le=MAX_DEPTH),
    kind: str | None = Query(None, max_length=16),
    live: bool = Query(False),
    page_size: int = Query(DEFAULT_PAGE, ge=1, le=MAX_PAGE_SIZE),
    page_token: str = Query("", max_length=MAX_NODE),
) -> Response:
    """What stands on a node at any depth, page by page, with the count of all of it."""
    found = await run_in_threadpool(
        services_of(request).lineage.impact,
        tenant_of(request),
        node,
        depth=depth,
        kind=kind,
        live=live,
        page_size=page_size,
        page_token=page_token or None,
    )
    return JSONResponse(found.to_json())


@router.post("/edges", openapi_extra=ours({200: EdgeAnswer, 201: EdgeAnswer}, body=EdgeBody, errors=(404, 409, 503)))
async def add_edge(request: Request) -> Response:
    """Say that one node stands on another: 201, or 200 where that was said before; 409 for what closes a cycle."""
    services = services_of(request)
    body = await read_json(request, services.settings.max_body_bytes, EdgeBody)
    fact, created = await run_in_threadpool(
        services.lineage.add,
        tenant_of(request),
        body.source,
        body.role,
        body.target,
        actor=actor_of(request),
        reason=body.reason,
    )
    return JSONResponse(fact.to_json(), 201 if created else 200)

"""The doors of evaluations under /api/v1: add, list and show them, compare versions, follow a metric."""

from __future__ import annotations

from urllib.parse import quote

from fastapi import APIRouter, Depends, Path, Query
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from graftwork.gateway.idempotency import once_of
from graftwork.gateway.openapi import ours
from graftwork.gateway.origin import refuse_foreign_origin
from graftwork.gateway.request_body import read_json
from graftwork.gateway.services import actor_of, services_of, tenant_of
from graftwork.protocol.evaluation_answers import ComparisonAnswer, EvaluationAnswer, EvaluationList, TrendAnswer
from graftwork.protocol.evaluation_parts import MAX_COUNT, NAME, Name
from graftwork.protocol.evaluations import MAX_METRICS, AnyEvaluation, EvaluationBody, Family
from graftwork.registry.evaluations.evaluations import MAX_COMPARED, MAX_TREND
from graftwork.registry.page import MAX_PAGE_SIZE

router = APIRouter(tags=["evaluations"], dependencies=[Depends(refuse_foreign_origin)], default_response_class=Response)

DEFAULT_PAGE = 100
OF_A_VERSION = "/adapters/{name}/versions/{version}/evaluations"


@router.post(OF_A_VERSION, openapi_extra=ours({201: EvaluationAnswer}, body=AnyEvaluation, errors=(404, 409, 500, 503)))
async def add_evaluation(request: Request, name: str, version: str) -> Response:
    """Keep what was measured of a version; nothing changes it later, and another may supersede it."""
    services = services_of(request)
    body = await read_json(request, services.settings.max_body_bytes, EvaluationBody)
    made = await run_in_threadpool(
        services.evaluations.add,
        tenant_of(request),
        _reference(name, version),
        body,
        actor=actor_of(request),
        once=once_of(request, body),
    )
    place = f"/api/v1/adapters/{made.adapter}/versions/{quote(made.version)}/evaluations/{made.number}"
    return JSONResponse(made.to_json(), 201, {"location": place})


@router.get(OF_A_VERSION, openapi_extra=ours({200: EvaluationList}, errors=(400, 404)))
async def list_evaluations(
    request: Request,
    name: str,
    version: str,
    family: Family | None = Query(None),
    called: Name | None = Query(None, alias="name"),
    page_size: int = Query(DEFAULT_PAGE, ge=1, le=MAX_PAGE_SIZE),
    page_token: str = Query("", max_length=64),
) -> Response:
    """A version's evaluations, the newest first, page by page; of one family, or of one name."""
    page = await run_in_threadpool(
        services_of(request).evaluations.list,
        tenant_of(request),
        _reference(name, version),
        family=family,
        name=called,
        page_size=page_size,
        page_token=page_token,
    )
    items = [item.to_json() for item in page.items]
    return JSONResponse({"evaluations": items, "next_page_token": page.next_page_token})


@router.get(OF_A_VERSION + "/{number}", openapi_extra=ours({200: EvaluationAnswer}, errors=(400, 404)))
async def show_evaluation(
    request: Request, name: str, version: str, number: int = Path(ge=1, le=MAX_COUNT)
) -> Response:
    """One evaluation of a version."""
    found = await run_in_threadpool(
        services_of(request).evaluations.show, tenant_of(request), _reference(name, version), number
    )
    return JSONResponse(found.to_json())


@router.get("/compare", openapi_extra=ours({200: ComparisonAnswer}, errors=(400, 404, 500, 503)))
async def compare(
    request: Request,
    reference: list[str] = Query(min_length=2, max_length=MAX_COMPARED),
    metric: list[Name] = Query(default_factory=list, max_length=MAX_METRICS),
    paired: bool = True,
) -> Response:
    """Versions side by side, each against the first: metrics, what of their configuration differs, sizes, tests."""
    found = await run_in_threadpool(
        services_of(request).evaluations.compare, tenant_of(request), reference, metrics=metric, paired=paired
    )
    return JSONResponse(found)


@router.get("/adapters/{name}/trend", openapi_extra=ours({200: TrendAnswer}, errors=(400, 404)))
async def trend(
    request: Request,
    name: str,
    metric: str = Query(max_length=128, pattern=NAME),
    limit: int = Query(100, ge=1, le=MAX_TREND),
) -> Response:
    """A metric over an adapter's versions, each value with its change from the version before."""
    found = await run_in_threadpool(
        services_of(request).evaluations.trend, tenant_of(request), name, metric, limit=limit
    )
    return JSONResponse(found)


def _reference(name: str, version: str) -> str:
    return f"{name}{'@' if version.startswith('sha256:') else ':'}{version}"

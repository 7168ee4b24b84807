"""The doors of promotion policies under /api/v1: as resources, and what the versions that one means wait for."""

from __future__ import annotations

from fastapi import APIRouter, Depends, Query
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from graftwork.access.names import MAX_LENGTH
from graftwork.gateway.openapi import ours
from graftwork.gateway.origin import refuse_foreign_origin
from graftwork.gateway.resources import ResourceDoors
from graftwork.gateway.services import services_of, tenant_of
from graftwork.protocol.promotions import CandidateList
from graftwork.protocol.resource_answers import PromotionAnswer, PromotionList, PromotionRevisions
from graftwork.registry.page import MAX_PAGE_SIZE, Page
from graftwork.traffic.promotions.promoter import Standing
from graftwork.traffic.promotions.promotions import PROMOTION

router = APIRouter(tags=["promotions"], dependencies=[Depends(refuse_foreign_origin)], default_response_class=Response)

DEFAULT_PAGE = 100

ResourceDoors(
    "/promotions",
    PROMOTION,
    lambda services: services.promotions,
    PromotionAnswer,
    PromotionList,
    PromotionRevisions,
).add_to(router)


@router.get("/promotions/{name}/candidates", openapi_extra=ours({200: CandidateList}, errors=(400, 404)))
async def candidates(
    request: Request,
    name: str,
    page_size: int = Query(DEFAULT_PAGE, ge=1, le=MAX_PAGE_SIZE),
    page_token: str = Query("", max_length=MAX_LENGTH),
) -> Response:
    """The versions that a promotion policy means now, by adapter, page by page, and what each still waits for."""
    services, tenant = services_of(request), tenant_of(request)

    def work() -> Page[Standing]:
        policy = services.promotions.show(tenant, name)
        return services.promoter.standing(policy, page_size=page_size, page_token=page_token)

    page = await run_in_threadpool(work)
    found = [one.to_json() for one in page.items]
    return JSONResponse({"candidates": found, "next_page_token": page.next_page_token})

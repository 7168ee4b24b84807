"""The doors of promotion policies under /api/v1: as resources, and what the versions that one means wait for."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Depends
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from graftwork.gateway.openapi import ours
from graftwork.gateway.origin import refuse_foreign_origin
from graftwork.gateway.resources import ResourceDoors
from graftwork.gateway.services import services_of, tenant_of
from graftwork.protocol.promotions import CandidateList
from graftwork.protocol.resource_answers import PromotionAnswer, PromotionList, PromotionRevisions
from graftwork.traffic.promotions.promotions import PROMOTION

router = APIRouter(tags=["promotions"], dependencies=[Depends(refuse_foreign_origin)], default_response_class=Response)

ResourceDoors(
    "/promotions",
    PROMOTION,
    lambda services: services.promotions,
    PromotionAnswer,
    PromotionList,
    PromotionRevisions,
).add_to(router)


@router.get("/promotions/{name}/candidates", openapi_extra=ours({200: CandidateList}, errors=(400, 404)))
async def candidates(request: Request, name: str) -> Response:
    """The versions that a promotion policy means now, the first hundred by adapter, and what each still waits for."""
    services, tenant = services_of(request), tenant_of(request)

    def work() -> list[dict[str, Any]]:
        found = services.promoter.standing(services.promotions.show(tenant, name))
        return [one.to_json() for one in found]

    return JSONResponse({"candidates": await run_in_threadpool(work)})

"""The doors of tenants, and /api/v1/whoami."""

from __future__ import annotations

from fastapi import APIRouter, Depends, Query
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from graftwork.access.access import Access
from graftwork.access.quotas import Quotas
from graftwork.access.roles import Right
from graftwork.access.tenants import Tenant
from graftwork.errors import NotFound
from graftwork.gateway.idempotency import once_of
from graftwork.gateway.listing import DEFAULT_PAGE, page_of
from graftwork.gateway.openapi import ours
from graftwork.gateway.origin import refuse_foreign_origin
from graftwork.gateway.request_body import read_json
from graftwork.gateway.services import actor_of, principal_of, services_of
from graftwork.protocol.tenancy import (
    MAX_NAME,
    TenantAnswer,
    TenantBody,
    TenantChanges,
    TenantList,
    WhoAmI,
)
from graftwork.registry.page import MAX_PAGE_SIZE

router = APIRouter(
    prefix="/api/v1",
    tags=["tenants"],
    dependencies=[Depends(refuse_foreign_origin)],
    default_response_class=Response,
)


@router.get("/whoami", openapi_extra=ours({200: WhoAmI}))
async def whoami(request: Request) -> Response:
    """Whom the server takes the caller for, and what they may do."""
    asking = principal_of(request)
    return JSONResponse({**vars(asking), "rights": sorted(asking.rights)})


@router.get("/tenants", openapi_extra=ours({200: TenantList}, errors=(400,)))
async def list_tenants(
    request: Request,
    page_size: int = Query(DEFAULT_PAGE, ge=1, le=MAX_PAGE_SIZE),
    page_token: str = Query("", max_length=MAX_NAME),
) -> Response:
    """The caller's own tenant; all of them for an administrator of the server."""
    access = services_of(request).snapshots.current().part(Access)
    found = {name: one.to_json() for name, one in access.tenants.items() if _may_see(request, name)}
    return JSONResponse(page_of("tenants", found, page_size, page_token))


@router.post("/tenants", openapi_extra=ours({200: TenantAnswer, 201: TenantAnswer}, body=TenantBody, errors=(409,)))
async def create_tenant(request: Request) -> Response:
    """Set up a tenant: 201, or 200 where the same request did before."""
    services = services_of(request)
    body = await read_json(request, services.settings.max_body_bytes, TenantBody)
    quotas = Quotas(**body.quotas.model_dump())
    wanted = Tenant(
        body.name, body.display_name, body.home_region, body.weight, quotas, default_route=body.default_route
    )
    tenant, created = await run_in_threadpool(
        services.tenancy.tenants.create, wanted, actor=actor_of(request), once=once_of(request, body)
    )
    return JSONResponse(tenant.to_json(), 201 if created else 200, {"location": f"/api/v1/tenants/{tenant.name}"})


@router.get("/tenants/{tenant}", openapi_extra=ours({200: TenantAnswer}, errors=(400, 404)))
async def show_tenant(request: Request, tenant: str) -> Response:
    """One tenant, of those that the caller may see."""
    access = services_of(request).snapshots.current().part(Access)
    if not _may_see(request, tenant) or tenant not in access.tenants:
        raise NotFound(f"There is no tenant {tenant[:200]}.")
    return JSONResponse(access.tenants[tenant].to_json())


@router.patch("/tenants/{tenant}", openapi_extra=ours({200: TenantAnswer}, body=TenantChanges, errors=(404,)))
async def change_tenant(request: Request, tenant: str) -> Response:
    """Change what is set for a tenant; it holds for the next request."""
    services = services_of(request)
    body = await read_json(request, services.settings.max_body_bytes, TenantChanges)
    changes = body.model_dump(exclude_unset=True)
    changed = await run_in_threadpool(services.tenancy.tenants.change, tenant, changes, actor=actor_of(request))
    return JSONResponse(changed.to_json())


def _may_see(request: Request, tenant: str) -> bool:
    asking = principal_of(request)
    return tenant == asking.tenant or Right.OPERATE in asking.rights

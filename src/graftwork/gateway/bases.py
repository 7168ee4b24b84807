"""The doors of base models under /api/v1/bases: what they are by digest, and their files where the store keeps them."""

from __future__ import annotations

from urllib.parse import quote

from fastapi import APIRouter, Depends, Query
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from graftwork.artifacts.bundle import Manifest
from graftwork.errors import InvalidRequest
from graftwork.gateway.openapi import ours
from graftwork.gateway.origin import refuse_foreign_origin
from graftwork.gateway.request_body import read_json
from graftwork.gateway.services import Services, actor_of, services_of, tenant_of
from graftwork.protocol.bases import BaseAnswer, BaseBody, BaseList
from graftwork.registry.bases import BaseRecord

router = APIRouter(tags=["bases"], dependencies=[Depends(refuse_foreign_origin)], default_response_class=Response)


@router.get("/bases", openapi_extra=ours({200: BaseList}, errors=(400,)))
async def list_bases(request: Request, page_size: int = Query(100), page_token: str = Query("")) -> Response:
    """Base models by name, page by page; one name may have had several contents."""
    found, token = await run_in_threadpool(
        services_of(request).bases.page, tenant_of(request), page_size=page_size, page_token=page_token or None
    )
    return JSONResponse({"bases": [base.to_json() for base in found], "next_page_token": token})


@router.get("/bases/{name}", openapi_extra=ours({200: BaseAnswer}, errors=(400, 404)))
async def show_base(request: Request, name: str, digest: str | None = Query(None, max_length=71)) -> Response:
    """The newest base of this name; with `digest`, its own or its weights' (or the beginning of one), that one."""
    found = await run_in_threadpool(services_of(request).bases.show, tenant_of(request), name, digest or None)
    return JSONResponse(_whole(found))


@router.post(
    "/bases", openapi_extra=ours({200: BaseAnswer, 201: BaseAnswer}, body=BaseBody, errors=(409, 422, 500, 503))
)
async def register_base(request: Request) -> Response:
    """Record a base whose files are stored, or the server's own: 201, or 200 where it was recorded before."""
    services = services_of(request)
    body = await read_json(request, services.settings.max_body_bytes, BaseBody)
    found, created = await run_in_threadpool(_register, services, tenant_of(request), actor_of(request), body)
    place = f"/api/v1/bases/{found.name}?digest={quote(found.digest)}"
    return JSONResponse(_whole(found), 201 if created else 200, {"location": place})


def _register(services: Services, tenant: str, actor: str, body: BaseBody) -> tuple[BaseRecord, bool]:
    if body.manifest is not None:
        if body.name is None:
            raise InvalidRequest("name is required beside manifest.", field="name")
        manifest = Manifest.from_json(body.manifest)
        source = body.source or body.name
        return services.base_pushes.push(
            tenant, body.name, manifest, source=source, revision=body.revision, actor=actor
        )
    if (said := next((field for field in ("name", "source", "revision") if getattr(body, field)), None)) is not None:
        raise InvalidRequest(f"{said} is the server's to say where there is no manifest.", field=said)
    return services.record_base(tenant, actor)


def _whole(base: BaseRecord) -> dict[str, object]:
    return {**base.to_json(), "manifest": base.manifest.to_json() if base.manifest else None}

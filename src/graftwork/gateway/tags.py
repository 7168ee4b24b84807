"""The doors of later facts under /api/v1: tags of versions and adapters, and what adapters are called and for."""

from __future__ import annotations

from fastapi import APIRouter, Depends, Query
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from graftwork.errors import InvalidRequest
from graftwork.gateway.openapi import ours
from graftwork.gateway.origin import refuse_foreign_origin
from graftwork.gateway.request_body import read_json
from graftwork.gateway.services import actor_of, services_of, tenant_of
from graftwork.protocol.search import DescribeBody, DescribedAdapter, TagAnswer, TagBody, TagList
from graftwork.registry.reference import MAX_LENGTH, parse_reference

router = APIRouter(tags=["tags"], dependencies=[Depends(refuse_foreign_origin)], default_response_class=Response)


@router.patch("/adapters/{name}", openapi_extra=ours({200: DescribedAdapter}, body=DescribeBody, errors=(404,)))
async def describe(request: Request, name: str) -> Response:
    """Change what an adapter is called and what is said of it."""
    services = services_of(request)
    body = await read_json(request, services.settings.max_body_bytes, DescribeBody)
    described = await run_in_threadpool(
        services.descriptions.set,
        tenant_of(request),
        name,
        display_name=body.display_name,
        description=body.description,
        actor=actor_of(request),
    )
    return JSONResponse(described)


@router.get("/adapters/{name}/tags", openapi_extra=ours({200: TagList}, errors=(400, 404)))
async def list_tags(request: Request, name: str, reference: str = Query("", max_length=MAX_LENGTH)) -> Response:
    """The tags of a version, or without a reference of the adapter itself."""
    meant = _meant(name, reference or None)
    return JSONResponse({"tags": await run_in_threadpool(services_of(request).tags.list, tenant_of(request), meant)})


@router.put("/adapters/{name}/tags/{key}", openapi_extra=ours({200: TagAnswer}, body=TagBody, errors=(404, 409)))
async def set_tag(request: Request, name: str, key: str) -> Response:
    """Give a tag, over whatever it was."""
    services = services_of(request)
    body = await read_json(request, services.settings.max_body_bytes, TagBody)
    meant = _meant(name, body.reference)
    tag = await run_in_threadpool(
        services.tags.set, tenant_of(request), meant, key, body.value, actor=actor_of(request)
    )
    return JSONResponse(tag)


@router.delete("/adapters/{name}/tags/{key}", status_code=204, openapi_extra=ours({204: None}, errors=(400, 403, 404)))
async def remove_tag(
    request: Request, name: str, key: str, reference: str = Query("", max_length=MAX_LENGTH)
) -> Response:
    """Take a tag away."""
    meant = _meant(name, reference or None)
    await run_in_threadpool(services_of(request).tags.remove, tenant_of(request), meant, key, actor=actor_of(request))
    return Response(status_code=204)


def _meant(name: str, reference: str | None) -> str:
    if reference is not None and parse_reference(reference).name != name:
        raise InvalidRequest(f"The reference {reference[:200]!r} is not of the adapter {name}.", field="reference")
    return reference or name

"""The doors of a tenant's users, API keys and grants under /api/v1."""

from __future__ import annotations

from datetime import timedelta

from fastapi import APIRouter, Depends, Query
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from graftwork.access.access import Access
from graftwork.access.clock import read_time, timestamp, utc_now
from graftwork.access.keys import Key
from graftwork.gateway.idempotency import once_of
from graftwork.gateway.listing import DEFAULT_PAGE, page_of
from graftwork.gateway.openapi import ours
from graftwork.gateway.origin import refuse_foreign_origin
from graftwork.gateway.request_body import read_json
from graftwork.gateway.services import actor_of, services_of, tenant_of
from graftwork.protocol.registry import MAX_REASON
from graftwork.protocol.tenancy import (
    MAX_NAME,
    GrantAnswer,
    GrantBody,
    GrantList,
    KeyAnswer,
    KeyBody,
    KeyChanges,
    KeyList,
    RotateBody,
    UserAnswer,
    UserBody,
    UserList,
)
from graftwork.registry.page import MAX_PAGE_SIZE

router = APIRouter(tags=["tenants"], dependencies=[Depends(refuse_foreign_origin)], default_response_class=Response)

PageSize = Query(DEFAULT_PAGE, ge=1, le=MAX_PAGE_SIZE)
PageToken = Query("", max_length=MAX_NAME)


@router.get("/users", openapi_extra=ours({200: UserList}, errors=(400,)))
async def list_users(request: Request, page_size: int = PageSize, page_token: str = PageToken) -> Response:
    """The tenant's users by name, page by page."""
    tenant, access = tenant_of(request), _access(request)
    found = {name: user.to_json() for (owner, name), user in access.users.items() if owner == tenant}
    return JSONResponse(page_of("users", found, page_size, page_token))


@router.put("/users/{name}", openapi_extra=ours({200: UserAnswer, 201: UserAnswer}, body=UserBody))
async def put_user(request: Request, name: str) -> Response:
    """Enter a user, 201, or change what they may do, 200; it holds for the next request."""
    services = services_of(request)
    body = await read_json(request, services.settings.max_body_bytes, UserBody)
    user, created = await run_in_threadpool(
        services.tenancy.users.put, tenant_of(request), name, body.role, body.display_name, actor=actor_of(request)
    )
    return JSONResponse(user.to_json(), 201 if created else 200)


@router.delete("/users/{name}", status_code=204, openapi_extra=ours({204: None}, errors=(400, 403, 404)))
async def remove_user(request: Request, name: str) -> Response:
    """Strike a user off; their keys are worth nothing from then on."""
    users = services_of(request).tenancy.users
    await run_in_threadpool(users.remove, tenant_of(request), name, actor=actor_of(request))
    return Response(status_code=204)


@router.get("/keys", openapi_extra=ours({200: KeyList}, errors=(400,)))
async def list_keys(request: Request, page_size: int = PageSize, page_token: str = PageToken) -> Response:
    """The tenant's keys by id, page by page; what they are made of is not among it."""
    tenant, now = tenant_of(request), timestamp(utc_now())
    found = {public: key.to_json(now) for public, key in _access(request).keys.items() if key.tenant == tenant}
    return JSONResponse(page_of("keys", found, page_size, page_token))


@router.post("/keys", openapi_extra=ours({200: KeyAnswer, 201: KeyAnswer}, body=KeyBody))
async def create_key(request: Request) -> Response:
    """A new key, which is told this once: 201; or 200, without it, where the same request has made it before."""
    services = services_of(request)
    body = await read_json(request, services.settings.max_body_bytes, KeyBody)
    made = await run_in_threadpool(
        services.tenancy.keys.create,
        tenant_of(request),
        name=body.name,
        role=body.role,
        scopes=tuple(dict.fromkeys(body.scopes)),
        user=body.user,
        expires_at=read_time(body.expires_at, field="expires_at") if body.expires_at is not None else None,
        default_route=body.default_route,
        actor=actor_of(request),
        once=once_of(request, body),
    )
    return _made(*made)


@router.post(
    "/keys/{key}/rotate", openapi_extra=ours({200: KeyAnswer, 201: KeyAnswer}, body=RotateBody, errors=(404, 409))
)
async def rotate_key(request: Request, key: str) -> Response:
    """A key in place of another, which still holds for a while: answers as a new one does."""
    services = services_of(request)
    body = await read_json(request, services.settings.max_body_bytes, RotateBody)
    made = await run_in_threadpool(
        services.tenancy.keys.rotate,
        tenant_of(request),
        key,
        timedelta(seconds=body.overlap_s),
        actor=actor_of(request),
        once=once_of(request, body),
    )
    return _made(*made)


@router.patch("/keys/{key}", openapi_extra=ours({200: KeyAnswer}, body=KeyChanges, errors=(404,)))
async def change_key(request: Request, key: str) -> Response:
    """Let a key mean another route where a request names nothing; it holds for the next one."""
    services = services_of(request)
    body = await read_json(request, services.settings.max_body_bytes, KeyChanges)
    changed = await run_in_threadpool(
        services.tenancy.keys.change, tenant_of(request), key, body.default_route, actor=actor_of(request)
    )
    return JSONResponse(changed.to_json(timestamp(utc_now())))


@router.delete("/keys/{key}", status_code=204, openapi_extra=ours({204: None}, errors=(400, 403, 404)))
async def revoke_key(request: Request, key: str, reason: str | None = Query(None, max_length=MAX_REASON)) -> Response:
    """End a key at once."""
    keys = services_of(request).tenancy.keys
    await run_in_threadpool(keys.revoke, tenant_of(request), key, actor=actor_of(request), reason=reason)
    return Response(status_code=204)


@router.get("/grants", openapi_extra=ours({200: GrantList}, errors=(400,)))
async def list_grants(
    request: Request,
    received: bool = Query(False),
    page_size: int = PageSize,
    page_token: str = PageToken,
) -> Response:
    """What the tenant gave others, by id, page by page; with `received`, what others gave it."""
    tenant, access = tenant_of(request), _access(request)
    found = access.grants.get(tenant, ()) if received else access.given_by(tenant)
    return JSONResponse(page_of("grants", {one.id: one.to_json() for one in found}, page_size, page_token))


@router.post("/grants", openapi_extra=ours({200: GrantAnswer, 201: GrantAnswer}, body=GrantBody, errors=(409,)))
async def create_grant(request: Request) -> Response:
    """Let another tenant do something with adapters of this one: 201, or 200 where it may already."""
    services = services_of(request)
    body = await read_json(request, services.settings.max_body_bytes, GrantBody)
    grant, created = await run_in_threadpool(
        services.tenancy.grants.create,
        tenant_of(request),
        body.tenant,
        body.pattern,
        tuple(body.verbs),
        actor=actor_of(request),
        once=once_of(request, body),
    )
    return JSONResponse(grant.to_json(), 201 if created else 200)


@router.delete("/grants/{grant}", status_code=204, openapi_extra=ours({204: None}, errors=(400, 403, 404)))
async def remove_grant(request: Request, grant: str) -> Response:
    """Take a grant back; it holds for the next request."""
    grants = services_of(request).tenancy.grants
    await run_in_threadpool(grants.remove, tenant_of(request), grant, actor=actor_of(request))
    return Response(status_code=204)


def _access(request: Request) -> Access:
    return services_of(request).snapshots.current().part(Access)


def _made(key: Key, token: str | None) -> Response:
    answer = {**key.to_json(timestamp(utc_now())), "key": token}
    return JSONResponse(answer, 200 if token is None else 201, {"cache-control": "no-store"})

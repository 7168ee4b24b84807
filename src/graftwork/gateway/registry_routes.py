"""The registry's doors under /api/v1: adapters, versions, aliases, promotion, history."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Depends, Query
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from graftwork.access.clock import read_time
from graftwork.access.names import MAX_LENGTH
from graftwork.artifacts.bundle import Manifest
from graftwork.errors import GraftworkError, InvalidRequest, Refused
from graftwork.gateway.etags import expected_of, tagged, tagged_version
from graftwork.gateway.idempotency import once_of
from graftwork.gateway.openapi import ours
from graftwork.gateway.origin import refuse_foreign_origin
from graftwork.gateway.request_body import read_json
from graftwork.gateway.services import actor_of, services_of, tenant_of
from graftwork.protocol.registry import MAX_REASON, AliasBody, PromoteBody, PushBody, RollbackBody
from graftwork.protocol.registry_answers import (
    AdapterAnswer,
    AdapterList,
    AliasAnswer,
    AliasList,
    History,
    VersionAnswer,
    VersionList,
)
from graftwork.registry.reference import parse_reference, place_of
from graftwork.registry.versions import Version

router = APIRouter(tags=["registry"], dependencies=[Depends(refuse_foreign_origin)], default_response_class=Response)

DEFAULT_PAGE = 100
At = Annotated[str | None, Query(max_length=64)]


@router.get("/adapters", openapi_extra=ours({200: AdapterList}, errors=(400,)))
async def list_adapters(
    request: Request, page_size: int = Query(DEFAULT_PAGE), page_token: str = Query("")
) -> Response:
    """Adapters by name, page by page."""
    page = await run_in_threadpool(
        services_of(request).registry.list_adapters,
        tenant_of(request),
        page_size=page_size,
        page_token=page_token or None,
    )
    items = [item.to_json() for item in page.items]
    return JSONResponse({"adapters": items, "next_page_token": page.next_page_token})


@router.get("/adapters/{name}", openapi_extra=ours({200: AdapterAnswer}, errors=(400, 404)))
async def show_adapter(request: Request, name: str) -> Response:
    """One adapter with all its versions."""
    found = await _versions(request, name)
    production = next((version.label for version in found if "production" in version.aliases), None)
    return tagged({"name": name, "production": production, "versions": [one.to_json() for one in found]})


@router.get("/adapters/{name}/versions", openapi_extra=ours({200: VersionList}, errors=(400, 404)))
async def list_versions(request: Request, name: str) -> Response:
    """An adapter's versions, the newest first."""
    return JSONResponse({"versions": [one.to_json() for one in await _versions(request, name)]})


@router.post(
    "/adapters/{name}/versions",
    openapi_extra=ours({200: VersionAnswer, 201: VersionAnswer}, body=PushBody, errors=(404, 409, 422, 429, 500, 503)),
)
async def push(request: Request, name: str) -> Response:
    """Register a version of blobs that are stored: 201, or 200 where the same bytes are registered."""
    services = services_of(request)
    body = await read_json(request, services.settings.max_body_bytes, PushBody)
    try:
        manifest = Manifest.from_json(body.manifest)
        await run_in_threadpool(services.quotas.check_stock, tenant_of(request), name, manifest)
        result = await run_in_threadpool(
            services.pushes.push,
            tenant_of(request),
            name,
            manifest,
            semver=body.version,
            metadata=body.metadata,
            actor=actor_of(request),
            once=once_of(request, body),
        )
    except GraftworkError as error:
        services.telemetry.pushes.labels("refused" if isinstance(error, Refused) else "failed").inc()
        raise
    services.telemetry.pushes.labels("created" if result.created else "unchanged").inc()
    if (engine := services.engine.started) is not None:
        engine.retry(result.version.digest)  # the bytes are whole now, whatever they were
    place = f"/api/v1/adapters/{name}/versions/{quote(result.version.semver)}"
    answer = {**result.version.to_json(), "account": result.account.to_json()}
    return JSONResponse(answer, 201 if result.created else 200, {"location": place})


@router.get("/adapters/{name}/versions/{version}", openapi_extra=ours({200: VersionAnswer}, errors=(400, 404)))
async def show_version(request: Request, name: str, version: str) -> Response:
    """One version by its number or its digest, with the account of its tensors."""
    return await find_version(request, place_of(name, version))


@router.get("/versions", openapi_extra=ours({200: VersionAnswer}, errors=(400, 404)))
async def find_version(request: Request, reference: str = Query(), at: At = None) -> Response:
    """The version that a reference means, with the account of its tensors; with `at`, what it meant then, and how
    that version stood."""
    registry, tenant = services_of(request).registry, tenant_of(request)
    return tagged_version(await run_in_threadpool(registry.show, tenant, reference, at=_time(at)))


@router.post("/adapters/{name}/promote", openapi_extra=ours({200: VersionAnswer}, body=PromoteBody, errors=(404, 409)))
async def promote(request: Request, name: str) -> Response:
    """Put a version into production: stage and alias in one step."""
    services = services_of(request)
    body = await read_json(request, services.settings.max_body_bytes, PromoteBody)
    _check_same_adapter(name, body.reference)
    version = await run_in_threadpool(
        services.registry.promote,
        tenant_of(request),
        body.reference,
        actor=actor_of(request),
        reason=body.reason,
        once=once_of(request, body),
    )
    return tagged_version(version)


@router.post(
    "/adapters/{name}/rollback", openapi_extra=ours({200: VersionAnswer}, body=RollbackBody, errors=(404, 409))
)
async def rollback(request: Request, name: str) -> Response:
    """Move `@production` back to the version before."""
    services = services_of(request)
    body = await read_json(request, services.settings.max_body_bytes, RollbackBody, absent=b"{}")
    version = await run_in_threadpool(
        services.registry.rollback,
        tenant_of(request),
        name,
        actor=actor_of(request),
        reason=body.reason,
        once=once_of(request, body),
    )
    return tagged_version(version)


@router.get("/adapters/{name}/aliases", openapi_extra=ours({200: AliasList}, errors=(400, 404)))
async def list_aliases(request: Request, name: str, at: At = None) -> Response:
    """Where an adapter's aliases point, and since when; with `at`, where they did then."""
    registry, tenant = services_of(request).registry, tenant_of(request)
    found = await run_in_threadpool(registry.aliases, tenant, name, at=_time(at))
    return tagged({"aliases": [one.to_json() for one in found]})


@router.get("/adapters/{name}/aliases/{alias}", openapi_extra=ours({200: AliasAnswer}, errors=(400, 404)))
async def show_alias(request: Request, name: str, alias: str, at: At = None) -> Response:
    """Where one alias points, or did then; its ETag is the digest there, for `If-Match`."""
    registry, tenant = services_of(request).registry, tenant_of(request)
    found = await run_in_threadpool(registry.alias, tenant, name, alias, at=_time(at))
    return tagged(found.to_json(), found.digest)


@router.put(
    "/adapters/{name}/aliases/{alias}",
    openapi_extra=ours({200: VersionAnswer}, body=AliasBody, errors=(404, 409, 412)),
)
async def set_alias(request: Request, name: str, alias: str) -> Response:
    """Point an alias at a version; 412 when `If-Match`, `If-None-Match: *` or `expected` says that it moved meanwhile.

    The answer's ETag is the alias's.
    """
    services = services_of(request)
    body = await read_json(request, services.settings.max_body_bytes, AliasBody)
    version = await run_in_threadpool(
        services.registry.set_alias,
        tenant_of(request),
        name,
        alias,
        body.target,
        expected=expected_of(request, body.expected),
        actor=actor_of(request),
        reason=body.reason,
    )
    return tagged(version.to_json(), version.digest)


@router.delete(
    "/adapters/{name}/aliases/{alias}",
    status_code=204,
    openapi_extra=ours({204: None}, errors=(400, 403, 404, 409, 412)),
)
async def remove_alias(
    request: Request, name: str, alias: str, reason: str | None = Query(None, max_length=MAX_REASON)
) -> Response:
    """Take an alias away; 412 when `If-Match` says that it moved meanwhile."""
    await run_in_threadpool(
        services_of(request).registry.remove_alias,
        tenant_of(request),
        name,
        alias,
        expected=expected_of(request),
        actor=actor_of(request),
        reason=reason,
    )
    return Response(status_code=204)


@router.get("/adapters/{name}/history", openapi_extra=ours({200: History}, errors=(400, 404)))
async def history(request: Request, name: str, alias: str | None = Query(None, max_length=MAX_LENGTH)) -> Response:
    """Every event of one adapter, oldest first; or those that moved one of its aliases."""
    registry, tenant = services_of(request).registry, tenant_of(request)
    found = await run_in_threadpool(registry.history, tenant, name, alias=alias)
    return JSONResponse({"events": [event.to_json() for event in found]})


async def _versions(request: Request, name: str) -> list[Version]:
    return await run_in_threadpool(services_of(request).registry.list_versions, tenant_of(request), name)


def _time(at: str | None) -> str | None:
    return read_time(at, field="at") if at is not None else None


def _check_same_adapter(name: str, reference: str) -> None:
    named = parse_reference(reference).name
    if named != name:
        raise InvalidRequest(f"The reference {reference[:200]!r} is not of the adapter {name}.", field="reference")

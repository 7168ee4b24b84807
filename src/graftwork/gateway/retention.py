"""The doors of what stays and what goes, under /api/v1: delete, legal holds, retention rules, collection."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from fastapi import APIRouter, Depends, Query
from pydantic.alias_generators import to_camel
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from graftwork.access.names import check_name
from graftwork.engine.request import AdapterHandle
from graftwork.gateway.openapi import ours
from graftwork.gateway.origin import refuse_foreign_origin
from graftwork.gateway.request_body import read_json
from graftwork.gateway.services import Services, actor_of, services_of, tenant_of
from graftwork.protocol.registry import MAX_REASON
from graftwork.protocol.retention import (
    API_VERSION,
    CollectBody,
    CollectedAnswer,
    DeletedVersions,
    HoldAnswer,
    HoldBody,
    HoldList,
    RetentionList,
    RetentionResource,
)
from graftwork.registry.retention.collector import Collected
from graftwork.registry.retention.holders import Claims, Holder, HolderRule
from graftwork.registry.retention.rules import EVERY, Rules
from graftwork.registry.retention.sweep import Bounds, Item
from graftwork.registry.versions import Version

router = APIRouter(tags=["retention"], dependencies=[Depends(refuse_foreign_origin)], default_response_class=Response)

DEFAULT_PAGE, MAX_PAGE = 100, 1000


@router.delete(
    "/adapters/{name}/versions/{version}",
    openapi_extra=ours({200: DeletedVersions}, errors=(400, 403, 404, 409)),
)
async def delete_version(
    request: Request, name: str, version: str, reason: str | None = Query(None, max_length=MAX_REASON)
) -> Response:
    """Delete a version by its number or its digest; 409 with the list of `holders` while somebody needs it."""
    services, tenant = services_of(request), tenant_of(request)
    gone = await run_in_threadpool(
        services.deletions.delete,
        tenant,
        f"{name}{'@' if version.startswith('sha256:') else ':'}{version}",
        actor=actor_of(request),
        reason=reason,
        also=_pinned(services),
    )
    return await _deleted(services, [gone])


@router.delete("/adapters/{name}", openapi_extra=ours({200: DeletedVersions}, errors=(400, 403, 404, 409)))
async def delete_adapter(
    request: Request,
    name: str,
    in_production: bool = Query(False),
    reason: str | None = Query(None, max_length=MAX_REASON),
) -> Response:
    """Delete an adapter with all its versions and aliases; one that is in production only with `in_production`."""
    services, tenant = services_of(request), tenant_of(request)
    gone = await run_in_threadpool(
        services.deletions.delete_adapter,
        tenant,
        name,
        actor=actor_of(request),
        reason=reason,
        in_production=in_production,
        also=_pinned(services),
    )
    return await _deleted(services, gone)


@router.get("/holds", openapi_extra=ours({200: HoldList}, errors=(400,)))
async def list_holds(
    request: Request, page_size: int = Query(DEFAULT_PAGE, ge=1, le=MAX_PAGE), page_token: str = Query("")
) -> Response:
    """Legal holds in force, in the order they were set, page by page."""
    holds = services_of(request).holds
    page = await run_in_threadpool(holds.list, tenant_of(request), page_size=page_size, page_token=page_token)
    return JSONResponse({"holds": [hold.to_json() for hold in page.items], "next_page_token": page.next_page_token})


@router.post("/holds", openapi_extra=ours({200: HoldAnswer, 201: HoldAnswer}, body=HoldBody, errors=(404, 409)))
async def set_hold(request: Request) -> Response:
    """Hold a version, or by its bare name a whole adapter: 201, or 200 where it is held for this reason already."""
    services = services_of(request)
    body = await read_json(request, services.settings.max_body_bytes, HoldBody)
    hold, new = await run_in_threadpool(
        services.holds.set, tenant_of(request), body.reference, reason=body.reason, actor=actor_of(request)
    )
    return JSONResponse(hold.to_json(), 201 if new else 200)


@router.post("/holds/release", openapi_extra=ours({200: HoldAnswer}, body=HoldBody, errors=(404,)))
async def release_hold(request: Request) -> Response:
    """End the hold of a version, or of a whole adapter."""
    services = services_of(request)
    body = await read_json(request, services.settings.max_body_bytes, HoldBody)
    hold = await run_in_threadpool(
        services.holds.release, tenant_of(request), body.reference, reason=body.reason, actor=actor_of(request)
    )
    return JSONResponse(hold.to_json())


@router.get("/retention", openapi_extra=ours({200: RetentionList}, errors=(400,)))
async def list_retention(
    request: Request, page_size: int = Query(DEFAULT_PAGE, ge=1, le=MAX_PAGE), page_token: str = Query("")
) -> Response:
    """The retention rules, those of all adapters first, page by page."""
    rules = services_of(request).retention
    page = await run_in_threadpool(rules.list, tenant_of(request), page_size=page_size, page_token=page_token)
    found = [_resource(adapter, one) for adapter, one in page.items]
    return JSONResponse({"retention": found, "next_page_token": page.next_page_token})


@router.put("/retention", openapi_extra=ours({200: RetentionResource}, body=RetentionResource, errors=(404,)))
async def set_retention(request: Request) -> Response:
    """Set the rules of the adapter that the resource names, or those of all that have none of their own."""
    services = services_of(request)
    body = await read_json(request, services.settings.max_body_bytes, RetentionResource)
    adapter = _named(body.metadata.name)
    rules = Rules(**body.spec.model_dump())
    await run_in_threadpool(services.retention.set, tenant_of(request), adapter, rules, actor=actor_of(request))
    return JSONResponse(_resource(adapter, rules))


@router.delete("/retention", status_code=204, openapi_extra=ours({204: None}, errors=(400, 403, 404)))
async def remove_retention(request: Request, name: str | None = Query(None)) -> Response:
    """Take the rules of an adapter away, or without a name those of all adapters."""
    rules = services_of(request).retention
    await run_in_threadpool(rules.remove, tenant_of(request), _named(name), actor=actor_of(request))
    return Response(status_code=204)


@router.post("/gc", openapi_extra=ours({200: CollectedAnswer}, body=CollectBody, errors=(409, 503)))
async def collect(request: Request) -> Response:
    """Let versions go by the rules, and remove every byte that nobody wants; with `dry_run` only say what would go."""
    services, tenant = services_of(request), tenant_of(request)
    body = await read_json(request, services.settings.max_body_bytes, CollectBody)
    bounds, also = Bounds(body.older_than_s, body.quarantine_s), _pinned(services)
    if body.dry_run:
        done = await run_in_threadpool(services.collector.look, tenant, bounds, also=also)
    else:
        done = await run_in_threadpool(services.collector.collect, tenant, bounds, actor=actor_of(request), also=also)
    found = list(_in_memory(services, tenant, done))
    items = [item for handle, item in found if body.dry_run or await _left(services, handle)]
    told = done.to_json()
    told["items"] += [item.to_json() for item in items]
    return JSONResponse({"dry_run": body.dry_run, **told})


def _named(name: str | None) -> str:
    return EVERY if name is None else check_name(name, what="adapter")


def _resource(adapter: str, rules: Rules) -> dict[str, Any]:
    spec = {to_camel(field): value for field, value in rules.to_json().items()}
    return {"apiVersion": API_VERSION, "kind": "Retention", "metadata": {"name": adapter or None}, "spec": spec}


def _pinned(services: Services) -> HolderRule:
    """What is pinned in this server's memory is needed there."""
    engine = services.engine.started
    held = engine.residency() if engine is not None else {}
    pinned = {(one.tenant, digest) for digest, one in held.items() if one.pinned}

    def pins(_: Claims, version: Version) -> Iterable[Holder]:
        if (version.tenant, version.digest) in pinned:
            yield Holder("pin", version.label, version.label, f"{version.label} is pinned in the server's memory")

    return pins


async def _deleted(services: Services, gone: list[Version]) -> Response:
    """Whoever runs on a deleted version finishes; then its memory is free, and what lay of it on the local disk."""
    for version in gone:
        if not await run_in_threadpool(services.registry.has_digest, version.tenant, version.digest):
            await _left(services, AdapterHandle(version.digest, version.tenant, version.label))
    return JSONResponse({"deleted": [version.to_json() for version in gone]})


async def _left(services: Services, handle: AdapterHandle) -> bool:
    """Take a version out of memory; false while rows still run on it, after which it goes."""
    if (engine := services.engine.started) is None:
        return True
    engine.unpin(handle)
    return not await engine.unload(handle, wait_s=0, disk=True)


def _in_memory(services: Services, tenant: str, done: Collected) -> Iterator[tuple[AdapterHandle, Item]]:
    """What is in memory of versions that are gone, alone or together with others."""
    engine = services.engine.started
    digests, labels = {one.digest for one in done.live}, {one.label for one in done.live}
    for digest, here in engine.residency().items() if engine is not None else ():
        parts = [part.partition("*")[0] for part in here.label.split("+")] if "*" in here.label else []
        if here.tenant != tenant or not here.bytes or digest in digests or (parts and labels.issuperset(parts)):
            continue
        why = f"it is made of {' and '.join(sorted(set(parts) - labels))}" if parts else "no version has this digest"
        yield AdapterHandle(digest, tenant, here.label), Item("memory", digest, here.bytes, here.label, why)

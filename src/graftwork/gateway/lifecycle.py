"""The doors of stages, approvals, deprecations and policies under /api/v1."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from graftwork.access.clock import read_time
from graftwork.errors import InvalidRequest
from graftwork.gateway.etags import expected_of, tagged, tagged_version
from graftwork.gateway.idempotency import once_of
from graftwork.gateway.openapi import ours
from graftwork.gateway.origin import refuse_foreign_origin
from graftwork.gateway.request_body import read_json
from graftwork.gateway.services import actor_of, services_of, tenant_of
from graftwork.protocol.lifecycle import (
    DeprecationBody,
    OpinionBody,
    OpinionList,
    PolicyBody,
    StageBody,
    policy_document,
)
from graftwork.protocol.registry import MAX_REASON
from graftwork.protocol.registry_answers import VersionAnswer
from graftwork.registry.reference import place_of
from graftwork.registry.rules.policy import Policy

router = APIRouter(tags=["lifecycle"], dependencies=[Depends(refuse_foreign_origin)], default_response_class=Response)

ReasonQuery = Annotated[str | None, Query(max_length=MAX_REASON)]
_VERSION = "/adapters/{name}/versions/{version}"


@router.put(f"{_VERSION}/stage", openapi_extra=ours({200: VersionAnswer}, body=StageBody, errors=(404, 409, 412)))
async def set_stage(request: Request, name: str, version: str) -> Response:
    """Put a version into a stage; into production it is promoted. 409 names the stages it may go to."""
    services = services_of(request)
    body = await read_json(request, services.settings.max_body_bytes, StageBody)
    found = await run_in_threadpool(
        services.lifecycle.set_stage,
        tenant_of(request),
        place_of(name, version),
        body.stage,
        expected=body.expected,
        if_match=expected_of(request),
        actor=actor_of(request),
        reason=body.reason,
    )
    return tagged_version(found)


@router.get(f"{_VERSION}/approvals", openapi_extra=ours({200: OpinionList}, errors=(400, 404)))
async def list_approvals(request: Request, name: str, version: str) -> Response:
    """Who approved or rejected a version, when and why; and what that comes to."""
    lifecycle, reference = services_of(request).lifecycle, place_of(name, version)
    found, opinions = await run_in_threadpool(lifecycle.opinions, tenant_of(request), reference)
    return JSONResponse({"approval": found.approval, "opinions": [one.to_json() for one in opinions]})


@router.post(f"{_VERSION}/approvals", openapi_extra=ours({200: VersionAnswer}, body=OpinionBody, errors=(404, 409)))
async def decide(request: Request, name: str, version: str) -> Response:
    """Approve or reject a version; 403 where the policy asks somebody else."""
    services = services_of(request)
    body = await read_json(request, services.settings.max_body_bytes, OpinionBody)
    found = await run_in_threadpool(
        services.lifecycle.decide,
        tenant_of(request),
        place_of(name, version),
        body.verdict,
        actor=actor_of(request),
        reason=body.reason,
        once=once_of(request, body),
    )
    return tagged_version(found)


@router.put(
    f"{_VERSION}/deprecation", openapi_extra=ours({200: VersionAnswer}, body=DeprecationBody, errors=(404, 412))
)
async def deprecate(request: Request, name: str, version: str) -> Response:
    """Have every answer of a version say that it should no longer be used; it is served as before."""
    services = services_of(request)
    body = await read_json(request, services.settings.max_body_bytes, DeprecationBody)
    found = await run_in_threadpool(
        services.lifecycle.deprecate,
        tenant_of(request),
        place_of(name, version),
        body.message,
        until=read_time(body.until, field="until") if body.until is not None else None,
        if_match=expected_of(request),
        actor=actor_of(request),
    )
    return tagged_version(found)


@router.delete(f"{_VERSION}/deprecation", openapi_extra=ours({200: VersionAnswer}, errors=(400, 403, 404, 412)))
async def undeprecate(request: Request, name: str, version: str, reason: ReasonQuery = None) -> Response:
    """Take a deprecation back."""
    lifecycle, reference = services_of(request).lifecycle, place_of(name, version)
    found = await run_in_threadpool(
        lifecycle.undeprecate,
        tenant_of(request),
        reference,
        if_match=expected_of(request),
        actor=actor_of(request),
        reason=reason,
    )
    return tagged_version(found)


@router.get("/policy", openapi_extra=ours({200: PolicyBody}))
async def show_policy(request: Request) -> Response:
    """The tenant's policy; the one that demands nothing where none was set."""
    return await _policy(request, None)


@router.put("/policy", openapi_extra=ours({200: PolicyBody}, body=PolicyBody, errors=(412,)))
async def set_policy(request: Request, reason: ReasonQuery = None) -> Response:
    """Demand something of all versions of the tenant whose adapter has no policy of its own."""
    return await _set_policy(request, None, reason)


@router.delete("/policy", status_code=204, openapi_extra=ours({204: None}, errors=(400, 403, 404, 412)))
async def remove_policy(request: Request, reason: ReasonQuery = None) -> Response:
    """Demand nothing any more."""
    return await _remove_policy(request, None, reason)


@router.get("/adapters/{name}/policy", openapi_extra=ours({200: PolicyBody}, errors=(400, 404)))
async def show_adapter_policy(request: Request, name: str) -> Response:
    """The policy that holds for an adapter: its own, which `metadata` names, or else the tenant's."""
    return await _policy(request, name)


@router.put("/adapters/{name}/policy", openapi_extra=ours({200: PolicyBody}, body=PolicyBody, errors=(404, 412)))
async def set_adapter_policy(request: Request, name: str, reason: ReasonQuery = None) -> Response:
    """Give an adapter a policy of its own, which holds instead of the tenant's."""
    return await _set_policy(request, name, reason)


@router.delete("/adapters/{name}/policy", status_code=204, openapi_extra=ours({204: None}, errors=(400, 403, 404, 412)))
async def remove_adapter_policy(request: Request, name: str, reason: ReasonQuery = None) -> Response:
    """Let the tenant's policy hold for the adapter again."""
    return await _remove_policy(request, name, reason)


async def _policy(request: Request, adapter: str | None) -> Response:
    found, owner = await run_in_threadpool(services_of(request).lifecycle.policy, tenant_of(request), adapter)
    return tagged(policy_document(found.to_json(), owner), found.etag)


async def _set_policy(request: Request, adapter: str | None, reason: str | None) -> Response:
    services = services_of(request)
    body = await read_json(request, services.settings.max_body_bytes, PolicyBody)
    if body.metadata.name not in (None, adapter):
        raise InvalidRequest(
            f"metadata.name is {body.metadata.name!a}, and the path names "
            f"{'the tenant' if adapter is None else adapter}.",
            field="metadata.name",
        )
    policy = Policy.from_json(body.spec.model_dump(by_alias=True))
    await _put(request, policy, adapter, reason)
    return tagged(policy_document(policy.to_json(), adapter), policy.etag)


async def _remove_policy(request: Request, adapter: str | None, reason: str | None) -> Response:
    await _put(request, None, adapter, reason)
    return Response(status_code=204)


async def _put(request: Request, policy: Policy | None, adapter: str | None, reason: str | None) -> None:
    await run_in_threadpool(
        services_of(request).lifecycle.set_policy,
        tenant_of(request),
        policy,
        adapter=adapter,
        if_match=expected_of(request),
        actor=actor_of(request),
        reason=reason,
    )

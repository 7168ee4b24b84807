"""/api/v1/adapters/{name}/versions/{version}/signatures: who vouches for a version's files."""

from __future__ import annotations

from fastapi import APIRouter, Depends
from fastapi import Path as InPath
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from graftwork.gateway.documents import version_at
from graftwork.gateway.download import download
from graftwork.gateway.idempotency import once_of
from graftwork.gateway.openapi import ours
from graftwork.gateway.origin import refuse_foreign_origin
from graftwork.gateway.request_body import read_json
from graftwork.gateway.services import actor_of, services_of, tenant_of
from graftwork.protocol.documents import SignatureAnswer, SignatureBody, SignatureList

router = APIRouter(
    prefix="/adapters/{name}/versions/{version}/signatures",
    tags=["registry"],
    dependencies=[Depends(refuse_foreign_origin)],
    default_response_class=Response,
)
_READING = (400, 404)
_MAX_NUMBER = 1 << 31


@router.post(
    "",
    openapi_extra=ours(
        {200: SignatureAnswer, 201: SignatureAnswer}, body=SignatureBody, errors=(404, 409, 422, 500, 503)
    ),
)
async def add_signature(request: Request, name: str, version: str) -> Response:
    """Record a signature that holds: 201, or 200 where it is recorded."""
    services = services_of(request)
    body = await read_json(request, services.settings.max_body_bytes, SignatureBody)
    signature, created = await run_in_threadpool(
        services.signatures.add,
        tenant_of(request),
        version_at(name, version),
        body.bundle,
        body.public_key,
        actor=actor_of(request),
        once=once_of(request, body),
    )
    place = {"location": f"{request.url.path}/{signature.number}"}
    return JSONResponse(signature.to_json(), 201 if created else 200, place)


@router.get("", openapi_extra=ours({200: SignatureList}, errors=_READING))
async def list_signatures(request: Request, name: str, version: str) -> Response:
    """All signatures, in the order they were added."""
    signatures, reference = services_of(request).signatures, version_at(name, version)
    found = await run_in_threadpool(signatures.of, tenant_of(request), reference)
    return JSONResponse({"signatures": [signature.to_json() for signature in found]})


@router.get("/{number}", openapi_extra=ours({200: SignatureAnswer}, errors=_READING))
async def show_signature(
    request: Request, name: str, version: str, number: int = InPath(ge=1, le=_MAX_NUMBER)
) -> Response:
    """One signature with its public key."""
    signatures, reference = services_of(request).signatures, version_at(name, version)
    found = await run_in_threadpool(signatures.show, tenant_of(request), reference, number)
    return JSONResponse(found.to_json())


@router.get(
    "/{number}/bundle",
    openapi_extra=ours(
        {200: "application/json", 206: "application/json", 304: None}, errors=(*_READING, 416, 500, 503)
    ),
)
async def read_signature(
    request: Request, name: str, version: str, number: int = InPath(ge=1, le=_MAX_NUMBER)
) -> Response:
    """The signature file, as model-signing reads it."""
    services, tenant = services_of(request), tenant_of(request)
    found = await run_in_threadpool(services.signatures.show, tenant, version_at(name, version), number)
    return await download(
        request,
        services.store.open(tenant, found.bundle),
        size=found.size,
        digest=found.bundle,
        name=f"{name}.sig.json",
        media_type="application/json",
        folder=services.settings.home,
    )

"""/api/v1/blobs/missing and …/{digest}/upload: which files to send, and large ones that go on where they broke off.

The second door speaks the IETF's resumable uploads (draft-ietf-httpbis-resumable-upload): `Upload-Offset` and
`Upload-Complete`, on a resource that the digest names, so that nobody has to remember an address.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from typing import BinaryIO

from fastapi import APIRouter, Depends
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from graftwork.artifacts.stores import BlobStore
from graftwork.artifacts.uploads import chunks_of
from graftwork.errors import Damaged, InvalidRequest
from graftwork.gateway.openapi import ours
from graftwork.gateway.origin import refuse_foreign_origin
from graftwork.gateway.request_body import check_media_type, limited, read_json
from graftwork.gateway.services import Services, services_of, tenant_of
from graftwork.gateway.spool import append
from graftwork.protocol.registry import MissingBody
from graftwork.protocol.registry_answers import MissingBlobs

router = APIRouter(
    prefix="/api/v1/blobs",
    tags=["registry"],
    dependencies=[Depends(refuse_foreign_origin)],
    default_response_class=Response,
)

PARTIAL_UPLOAD = "application/partial-upload"
#: Questions to a store at once; in a bucket each takes a round trip.
_AT_ONCE = 16


@router.post("/missing", openapi_extra=ours({200: MissingBlobs}, body=MissingBody, errors=(503,)))
async def missing(request: Request) -> Response:
    """Which of these blobs the store lacks, or has with another size."""
    services, tenant = services_of(request), tenant_of(request)
    body = await read_json(request, services.settings.max_body_bytes, MissingBody)
    wanted = {blob.digest: blob.size for blob in body.blobs}
    return JSONResponse({"missing": await run_in_threadpool(_missing, services.store, tenant, wanted)})


@router.head("/{digest}/upload", openapi_extra=ours({204: None}, errors=(400, 503)))
async def show_upload(request: Request, digest: str) -> Response:
    """How much of the blob has come, and whether it is complete."""
    services, tenant = services_of(request), tenant_of(request)
    # What has come goes before what is stored: it is there to replace it.
    come = await run_in_threadpool(services.uploads.offset, tenant, digest)
    size = None if come else await run_in_threadpool(services.store.has, tenant, digest)
    return _state(come, complete=False) if size is None else _state(size, complete=True)


@router.patch(
    "/{digest}/upload",
    openapi_extra=ours({201: None, 204: None}, body=PARTIAL_UPLOAD, errors=(409, 500, 503)),
)
async def continue_upload(request: Request, digest: str) -> Response:
    """Add the body to what has come; whatever arrives stays, also when the connection breaks.

    With `Upload-Complete: ?1` the body is the last of it: 201 when all together match the digest. Else 204.
    """
    services, tenant = services_of(request), tenant_of(request)
    check_media_type(request, PARTIAL_UPLOAD)
    offset, last = _offset(request), request.headers.get("upload-complete", "").strip() == "?1"
    body = limited(request, services.settings.max_blob_bytes, "max_blob_bytes", before=offset)
    with ExitStack() as stack:
        file = await run_in_threadpool(stack.enter_context, services.uploads.continued(tenant, digest, offset))
        size = await append(file, body, services.settings.home)
        if not last:
            return _state(size, complete=False)
        await run_in_threadpool(_finish, services, tenant, digest, file)
    return _state(size, complete=True, status=201)


@router.delete("/{digest}/upload", openapi_extra=ours({204: None}, errors=(400, 403)))
async def drop_upload(request: Request, digest: str) -> Response:
    """Forget what has come."""
    await run_in_threadpool(services_of(request).uploads.drop, tenant_of(request), digest)
    return Response(status_code=204)


def _missing(store: BlobStore, tenant: str, wanted: Mapping[str, int]) -> list[str]:
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        sizes = pool.map(partial(store.has, tenant), wanted)
        return [digest for digest, size in zip(wanted, sizes, strict=True) if size != wanted[digest]]


def _finish(services: Services, tenant: str, digest: str, file: BinaryIO) -> None:
    try:
        services.store.put(tenant, digest, chunks_of(file))
    except Damaged as error:
        services.uploads.drop(tenant, digest)
        raise InvalidRequest(f"The bytes do not match their digest. {error.message}", field="digest") from error
    services.uploads.drop(tenant, digest)


def _offset(request: Request) -> int:
    text = request.headers.get("upload-offset", "")
    if not (text.isascii() and text.isdecimal() and len(text) < 20):
        raise InvalidRequest("The header Upload-Offset must say how many bytes have come.", field="Upload-Offset")
    return int(text)


def _state(size: int, *, complete: bool, status: int = 204) -> Response:
    return Response(
        status_code=status, headers={"upload-offset": str(size), "upload-complete": "?1" if complete else "?0"}
    )

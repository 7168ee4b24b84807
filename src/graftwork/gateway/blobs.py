"""/api/v1/blobs/{digest}: files come in one by one, streamed and verified, and are verified again when asked."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain

from fastapi import APIRouter, Depends
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from graftwork.artifacts.examine import examine
from graftwork.errors import Damaged, InvalidRequest, NotFound
from graftwork.gateway.openapi import ours
from graftwork.gateway.origin import refuse_foreign_origin
from graftwork.gateway.request_body import BYTES, check_media_type, limited
from graftwork.gateway.services import services_of, tenant_of
from graftwork.gateway.spool import spooled
from graftwork.protocol.registry_answers import BlobAnswer, BlobState

router = APIRouter(
    prefix="/api/v1/blobs",
    tags=["registry"],
    dependencies=[Depends(refuse_foreign_origin)],
    default_response_class=Response,
)


_RANGE = re.compile(r"bytes=([0-9]{1,18})-", re.ASCII)


@router.put("/{digest}", openapi_extra=ours({200: BlobAnswer, 201: BlobAnswer}, body=BYTES, errors=(503,)))
async def put_blob(request: Request, digest: str) -> Response:
    """Store the body under its digest: 201, or 200 where it was there already."""
    services, tenant = services_of(request), tenant_of(request)
    check_media_type(request, BYTES)
    before = await run_in_threadpool(services.store.has, tenant, digest)
    body = limited(request, services.settings.max_blob_bytes, "max_blob_bytes")
    try:
        async with spooled(body, services.settings.home) as chunks:
            size = await run_in_threadpool(services.store.put, tenant, digest, chunks)
    except Damaged as error:
        raise InvalidRequest(f"The bytes do not match their digest. {error.message}", field="digest") from error
    return JSONResponse({"digest": digest, "size": size}, 200 if before == size else 201)


@router.head("/{digest}", openapi_extra=ours({200: None}, errors=(400, 404)))
async def head_blob(request: Request, digest: str) -> Response:
    """Whether the blob is there, and its size in bytes as X-Graftwork-Blob-Size."""
    size = await run_in_threadpool(services_of(request).store.has, tenant_of(request), digest)
    if size is None:
        raise NotFound(f"There is no blob {digest[:80]}.")
    return Response(headers={"x-graftwork-blob-size": str(size)})


@router.get("/{digest}", openapi_extra=ours({200: BYTES, 206: BYTES}, errors=(400, 404, 500, 503)))
async def get_blob(request: Request, digest: str) -> Response:
    """The blob, verified: the last of it comes only when all of it matches. `Range: bytes=N-` begins at byte N."""
    store, tenant = services_of(request).store, tenant_of(request)
    size = await run_in_threadpool(store.has, tenant, digest)
    if size is None:
        raise NotFound(f"There is no blob {digest[:80]}.")
    begin = _begin(request.headers.get("range", ""), size)
    chunks = _from(begin, store.open(tenant, digest))
    first = await run_in_threadpool(next, chunks, b"")  # so that a small one that is damaged is an error, not a break
    headers = {"content-length": str(size - begin), "accept-ranges": "bytes", "etag": f'"{digest}"'}
    if begin:
        headers["content-range"] = f"bytes {begin}-{size - 1}/{size}"
    return StreamingResponse(chain([first], chunks), 206 if begin else 200, headers, BYTES)


@router.post("/{digest}/verify", openapi_extra=ours({200: BlobState}, errors=(400, 403, 503)))
async def verify_blob(request: Request, digest: str) -> Response:
    """Read the blob from end to end: `ok`, `missing`, or `damaged` (and set aside)."""
    state = await run_in_threadpool(examine, services_of(request).store, tenant_of(request), digest)
    return JSONResponse({"digest": digest, "state": state})


def _begin(header: str, size: int) -> int:
    """The first byte that is wanted; 0, as HTTP allows, for ranges of other forms and such as are not there."""
    found = _RANGE.fullmatch(header.strip())
    begin = int(found[1]) if found else 0
    return begin if begin < size else 0


def _from(begin: int, chunks: Iterator[bytes]) -> Iterator[bytes]:
    for chunk in chunks:
        if begin < len(chunk):
            yield chunk[begin:]
        begin = max(0, begin - len(chunk))

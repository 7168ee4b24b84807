"""/api/v1/adapters/{name}/versions/{version}/documents: companions of a version; and its model card and its bill."""

from __future__ import annotations

from fastapi import APIRouter, Depends, Query
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from graftwork.gateway.download import HARMLESS, download
from graftwork.gateway.idempotency import once_of
from graftwork.gateway.openapi import ours
from graftwork.gateway.origin import refuse_foreign_origin
from graftwork.gateway.request_body import read_json
from graftwork.gateway.services import actor_of, services_of, tenant_of
from graftwork.protocol.documents import DocumentAnswer, DocumentBody, DocumentList
from graftwork.registry.cards.bom import MEDIA_TYPE
from graftwork.registry.documents.document import MARKDOWN, Content
from graftwork.registry.reference import Reference, parse_reference

router = APIRouter(
    prefix="/adapters/{name}/versions/{version}",
    tags=["registry"],
    dependencies=[Depends(refuse_foreign_origin)],
    default_response_class=Response,
)
_READING = (400, 404)


def version_at(name: str, version: str) -> Reference:
    """The version that a path names, by its number or its digest; raises InvalidRequest."""
    return parse_reference(f"{name}{'@' if version.startswith('sha256:') else ':'}{version}")


@router.post(
    "/documents",
    openapi_extra=ours({200: DocumentAnswer, 201: DocumentAnswer}, body=DocumentBody, errors=(404, 409, 500, 503)),
)
async def add_document(request: Request, name: str, version: str) -> Response:
    """Record a document whose bytes are stored: 201, or 200 where the last one of its kind and name is the same."""
    services = services_of(request)
    body = await read_json(request, services.settings.max_body_bytes, DocumentBody)
    document, created = await run_in_threadpool(
        services.documents.add,
        tenant_of(request),
        version_at(name, version),
        Content(**body.model_dump()),
        actor=actor_of(request),
        once=once_of(request, body),
    )
    place = {"location": f"{request.url.path}/{document.id}"}
    return JSONResponse(document.to_json(), 201 if created else 200, place)


@router.get("/documents", openapi_extra=ours({200: DocumentList}, errors=_READING))
async def list_documents(
    request: Request,
    name: str,
    version: str,
    kind: str = Query("", max_length=24),
    superseded: bool = Query(False),
    page_size: int = Query(100),
    page_token: str = Query("", max_length=32),
) -> Response:
    """Documents, those of the bundle first; earlier revisions where they are asked for."""
    page = await run_in_threadpool(
        services_of(request).documents.page,
        tenant_of(request),
        version_at(name, version),
        kind=kind or None,
        superseded=superseded,
        page_size=page_size,
        page_token=page_token or None,
    )
    found = [document.to_json() for document in page.items]
    return JSONResponse({"documents": found, "next_page_token": page.next_page_token})


@router.get("/documents/{document}", openapi_extra=ours({200: DocumentAnswer}, errors=_READING))
async def show_document(request: Request, name: str, version: str, document: str) -> Response:
    """One document without its bytes."""
    documents, reference = services_of(request).documents, version_at(name, version)
    found = await run_in_threadpool(documents.show, tenant_of(request), reference, document)
    return JSONResponse(found.to_json())


@router.get(
    "/documents/{document}/content",
    openapi_extra=ours({200: "*/*", 206: "*/*", 304: None}, errors=(*_READING, 416, 500, 503)),
)
async def read_document(request: Request, name: str, version: str, document: str) -> Response:
    """The document's bytes, to be saved and not to be shown; `Range` is heeded."""
    services, tenant = services_of(request), tenant_of(request)
    reference = version_at(name, version)
    found = await run_in_threadpool(services.documents.show, tenant, reference, document)
    return await download(
        request,
        services.documents.content(tenant, found),
        size=found.content.size,
        digest=found.content.digest,
        name=found.content.name,
        media_type=found.content.media_type,
        folder=services.settings.home,
    )


@router.get("/card", openapi_extra=ours({200: MARKDOWN}, errors=(*_READING, 500, 503)))
async def show_card(request: Request, name: str, version: str) -> Response:
    """The model card: generated, around what people wrote."""
    cards, reference = services_of(request).cards, version_at(name, version)
    card = await run_in_threadpool(cards.model_card, tenant_of(request), reference)
    return Response(card, media_type=MARKDOWN, headers=HARMLESS)


@router.get("/bom", openapi_extra=ours({200: MEDIA_TYPE}, errors=(*_READING, 500, 503)))
async def show_bom(request: Request, name: str, version: str) -> Response:
    """The bill of materials, in CycloneDX 1.6."""
    cards, reference = services_of(request).cards, version_at(name, version)
    bill = await run_in_threadpool(cards.bill_of_materials, tenant_of(request), reference)
    return JSONResponse(bill, media_type=MEDIA_TYPE)

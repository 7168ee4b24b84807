"""The door of search under /api/v1."""

from __future__ import annotations

from fastapi import APIRouter, Depends, Query
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from graftwork.gateway.openapi import ours
from graftwork.gateway.origin import refuse_foreign_origin
from graftwork.gateway.services import services_of, tenant_of
from graftwork.protocol.search import SearchAnswer
from graftwork.registry.page import MAX_PAGE_SIZE
from graftwork.registry.search.parser import MAX_LENGTH
from graftwork.registry.search.search import DEFAULT_PAGE, MAX_TEXT
from graftwork.registry.search.sorting import DEFAULT

router = APIRouter(tags=["search"], dependencies=[Depends(refuse_foreign_origin)], default_response_class=Response)


@router.get("/search", openapi_extra=ours({200: SearchAnswer}, errors=(400,)))
async def search(
    request: Request,
    filter: str = Query("", max_length=MAX_LENGTH),
    text: str = Query("", max_length=MAX_TEXT),
    sort: str = Query(DEFAULT, max_length=256),
    page_size: int = Query(DEFAULT_PAGE, ge=1, le=MAX_PAGE_SIZE),
    page_token: str = Query("", max_length=4096),
) -> Response:
    """Versions that a filter and words find, page by page."""
    page = await run_in_threadpool(
        services_of(request).searches.find,
        tenant_of(request),
        filter,
        text=text,
        sort=sort,
        page_size=page_size,
        page_token=page_token or None,
    )
    versions = [one.to_json() for one in page.items]
    return JSONResponse({"versions": versions, "next_page_token": page.next_page_token})

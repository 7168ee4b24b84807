"""GET /api/v1/usage: what the caller used of each adapter on each day, as JSON or CSV."""

from __future__ import annotations

import csv
import io
from dataclasses import fields
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from graftwork.gateway.openapi import ours
from graftwork.gateway.services import services_of, tenant_of
from graftwork.protocol.predictions import UsageList
from graftwork.traffic.records.usage import Usage

router = APIRouter(tags=["usage"], default_response_class=Response)

DEFAULT_PAGE, MAX_PAGE = 100, 1000
CSV = "text/csv"
Day = Annotated[str | None, Query(pattern=r"^\d{4}-\d{2}-\d{2}$", max_length=10)]

_DOOR: dict[str, Any] = ours({200: UsageList}, errors=(400,))
_DOOR["responses"]["200"]["content"][CSV] = {"schema": {"type": "string"}}


@router.get("/usage", openapi_extra=_DOOR)
async def usage(
    request: Request,
    adapter: Annotated[str | None, Query(max_length=2048)] = None,
    since: Day = None,
    until: Day = None,
    format: Annotated[Literal["json", "csv"], Query()] = "json",
    page_size: int = Query(DEFAULT_PAGE, ge=1, le=MAX_PAGE),
    page_token: str = Query("", max_length=4096),
) -> Response:
    """Days from `since` to before `until`, page by page; as CSV with a heading, and the next page in a header."""
    books = services_of(request).books
    await books.recorder.flush()
    page = await run_in_threadpool(
        books.usage.page,
        tenant_of(request),
        adapter=adapter,
        since=since,
        until=until,
        page_size=page_size,
        page_token=page_token,
    )
    if format == "csv":
        headers = {"x-next-page-token": page.next_page_token} if page.next_page_token else {}
        return Response(_csv(page.items), headers=headers, media_type=CSV)
    return JSONResponse({"usage": [row.to_json() for row in page.items], "next_page_token": page.next_page_token})


def _csv(rows: tuple[Usage, ...]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, [field.name for field in fields(Usage)], lineterminator="\r\n")  # RFC 4180
    writer.writeheader()
    writer.writerows(row.to_json() for row in rows)
    return text.getvalue()

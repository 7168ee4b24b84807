"""POST /v1/feedback: a score or a business event for an answer that was given, at any later time."""

from __future__ import annotations

from fastapi import APIRouter, Depends
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from graftwork.errors import NotFound
from graftwork.gateway.openapi import inference
from graftwork.gateway.origin import refuse_foreign_origin
from graftwork.gateway.request_body import read_json
from graftwork.gateway.services import actor_of, services_of, tenant_of
from graftwork.protocol.predictions import FeedbackAnswer, FeedbackBody
from graftwork.traffic.records.feedback import Feedback

router = APIRouter(
    prefix="/v1", tags=["inference"], dependencies=[Depends(refuse_foreign_origin)], default_response_class=Response
)
_GIVE = inference(FeedbackAnswer, body=FeedbackBody)
_GIVE["responses"]["201"] = {**_GIVE["responses"]["200"], "description": "Created"}


@router.post("/feedback", openapi_extra=_GIVE)
async def give_feedback(request: Request) -> Response:
    """Say something of an answer: 201, or 200 where this name had something from this source already."""
    services = services_of(request)
    body = await read_json(request, services.settings.max_body_bytes, FeedbackBody)
    said = Feedback(request_id_in(body.request_id), body.name, body.source, body.value, body.label)
    tenant, actor = tenant_of(request), actor_of(request)
    try:
        found, new = await run_in_threadpool(services.books.feedback.give, tenant, said, actor=actor)
    except NotFound:
        await services.books.recorder.flush()  # it may have been answered a moment ago
        found, new = await run_in_threadpool(services.books.feedback.give, tenant, said, actor=actor)
    return JSONResponse(found.to_json(), 201 if new else 200)


def request_id_in(text: str) -> str:
    """The request's id, also in that of an answer: `chatcmpl-b80c35ec…`."""
    return text.rpartition("-")[2]

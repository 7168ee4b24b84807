"""The doors of records under /api/v1: answers listed, explained and forgotten, and how they are recorded."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Query
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from graftwork.access.clock import read_time
from graftwork.access.roles import Right
from graftwork.errors import Unavailable
from graftwork.gateway.feedback import request_id_in
from graftwork.gateway.openapi import ours
from graftwork.gateway.origin import refuse_foreign_origin
from graftwork.gateway.request_body import read_json
from graftwork.gateway.services import actor_of, principal_of, services_of, tenant_of
from graftwork.protocol.predictions import (
    MAX_CALLED,
    ExplainedAnswer,
    ForgottenAnswer,
    OutcomeName,
    PredictionList,
    RecordingResource,
    RecordingSpec,
)
from graftwork.protocol.resource import API_VERSION
from graftwork.traffic.records.recording import Recording
from graftwork.traffic.records.records import Wanted

router = APIRouter(tags=["predictions"], dependencies=[Depends(refuse_foreign_origin)], default_response_class=Response)

DEFAULT_PAGE, MAX_PAGE = 100, 1000
Name = Annotated[str | None, Query(max_length=2048)]
Called = Annotated[str | None, Query(max_length=MAX_CALLED)]
Time = Annotated[str | None, Query(max_length=64)]


@router.get("/predictions", openapi_extra=ours({200: PredictionList}, errors=(400,)))
async def list_predictions(
    request: Request,
    adapter: Name = None,
    digest: Name = None,
    route: Name = None,
    arm: Name = None,
    user: Called = None,
    session: Called = None,
    outcome: Annotated[OutcomeName | None, Query()] = None,
    since: Time = None,
    until: Time = None,
    page_size: int = Query(DEFAULT_PAGE, ge=1, le=MAX_PAGE),
    page_token: str = Query("", max_length=128),
) -> Response:
    """The caller's answers that are recorded, the newest first, page by page."""
    books = services_of(request).books
    wanted = Wanted(
        adapter=adapter,
        digest=digest,
        route=route,
        arm=arm,
        user_id=user,
        session_id=session,
        outcome=outcome,
        since=read_time(since, field="since") if since else None,
        until=read_time(until, field="until") if until else None,
    )
    await books.recorder.flush()
    page = await run_in_threadpool(
        books.records.page, tenant_of(request), wanted, page_size=page_size, page_token=page_token
    )
    found = [one.to_json() for one in page.items]
    return JSONResponse({"predictions": found, "next_page_token": page.next_page_token})


@router.get("/predictions/{request_id}", openapi_extra=ours({200: ExplainedAnswer}, errors=(400, 404)))
async def explain(request: Request, request_id: str) -> Response:
    """All that is known of one answer: its record, feedback, and how its adapters stood when it was decided."""
    services, tenant, wanted = services_of(request), tenant_of(request), request_id_in(request_id)
    books = services.books
    texts = Right.TEXTS in principal_of(request).rights
    await books.recorder.flush()  # of two that begin so the other may have been answered a moment ago
    found = await run_in_threadpool(books.records.explain, tenant, wanted, texts=texts)
    await services.shadowing.flush()
    shadows = await run_in_threadpool(books.diffs.of_request, tenant, found.record.request_id)
    return JSONResponse(
        {
            "prediction": found.record.to_json(),
            "text": found.text,
            "text_withheld": found.withheld,
            "feedback": [one.to_json() for one in found.feedback],
            "decided_by": [one.to_json() for one in found.decided_by],
            "history": [one.to_json() for one in found.history],
            "shadows": [{**one.to_json(), "text": text if texts else None} for one, text in shadows],
        }
    )


@router.delete("/predictions", openapi_extra=ours({200: ForgottenAnswer}, errors=(400, 403, 503)))
async def forget(request: Request, user: str = Query(min_length=1, max_length=MAX_CALLED)) -> Response:
    """Delete every record of a user with its hashes, texts, copies, feedback and sessions; sums of usage stay."""
    services, tenant = services_of(request), tenant_of(request)
    books, sessions = services.books, services.sessions
    await books.recorder.flush()
    await services.shadowing.forget(tenant, user)
    sessions.forget(tenant, user)
    if not await run_in_threadpool(sessions.flush):
        raise Unavailable("What sessions keep to is still being written, of this user's too perhaps; try again.")
    gone = await run_in_threadpool(books.records.forget, tenant, user, actor=actor_of(request))
    sessions.forget(tenant, user)  # what was read meanwhile
    return JSONResponse({"deleted": gone})


@router.get("/recording", openapi_extra=ours({200: RecordingResource}))
async def show_recording(request: Request) -> Response:
    """How the caller's answers are recorded."""
    found = await run_in_threadpool(services_of(request).books.recordings.show, tenant_of(request))
    return JSONResponse(_resource(found))


@router.put("/recording", openapi_extra=ours({200: RecordingResource}, body=RecordingResource, errors=(422,)))
async def set_recording(request: Request) -> Response:
    """Have answers recorded otherwise from now on; 422 where texts are to be kept and there is no keyring."""
    services = services_of(request)
    body = await read_json(request, services.settings.max_body_bytes, RecordingResource)
    wanted = Recording(**body.spec.model_dump())
    found = await run_in_threadpool(services.books.recordings.set, tenant_of(request), wanted, actor=actor_of(request))
    return JSONResponse(_resource(found))


def _resource(found: Recording) -> dict[str, object]:
    spec = RecordingSpec.model_validate(found.to_json(), by_name=True).model_dump(by_alias=True)
    return {"apiVersion": API_VERSION, "kind": "Recording", "metadata": {}, "spec": spec}

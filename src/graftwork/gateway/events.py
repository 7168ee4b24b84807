"""The doors of the event log under /api/v1: events, as a list or followed, and the audit of the chain."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from dataclasses import replace
from typing import Any

from fastapi import APIRouter, Depends, Query
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from graftwork.access.clock import read_time
from graftwork.access.event_log import Wanted
from graftwork.access.events import Event
from graftwork.access.principal import Principal
from graftwork.errors import GraftworkError, InvalidRequest
from graftwork.gateway.disconnect import EventStream
from graftwork.gateway.openapi import ours
from graftwork.gateway.origin import refuse_foreign_origin
from graftwork.gateway.request_body import read_json
from graftwork.gateway.services import Services, principal_of, services_of, tenant_of
from graftwork.gateway.still_asking import check_still
from graftwork.protocol.errors import kind_of, problem
from graftwork.protocol.events import ChainPage, EventList, HeadAnswer, VerificationAnswer, VerifyBody
from graftwork.registry.subjects import KINDS

router = APIRouter(tags=["events"], dependencies=[Depends(refuse_foreign_origin)], default_response_class=Response)

DEFAULT_PAGE, MAX_PAGE = 100, 1000
MAX_POSITION = (1 << 53) - 1
#: How often a follower looks whether the log has grown, in seconds; it costs microseconds.
LOOK_S = 0.2
#: The longest silence of a stream, in seconds, so that neither end takes the other for gone.
HEARTBEAT_S = 15.0
#: Events that are read at once for a follower, and only when it has taken those before.
AT_ONCE = 100

_LIST: dict[str, Any] = ours({200: EventList}, errors=(400, 404))
_LIST["responses"]["200"]["content"]["text/event-stream"] = {"schema": {"type": "string"}}
_VERIFY: dict[str, Any] = ours({200: VerificationAnswer}, body=VerifyBody, errors=(503,))
_VERIFY["requestBody"]["required"] = False


@router.get("/events", openapi_extra=_LIST)
async def list_events(
    request: Request,
    kind: str | None = Query(None, max_length=64),
    subject: str | None = Query(None, max_length=512),
    actor: str | None = Query(None, max_length=512),
    after: int = Query(0, ge=0, le=MAX_POSITION),
    since: str | None = Query(None, max_length=64),
    until: str | None = Query(None, max_length=64),
    page_size: int = Query(DEFAULT_PAGE, ge=1, le=MAX_PAGE),
    page_token: str = Query(""),
    follow: bool = Query(False, include_in_schema=False),  # whoever tries out all doors would wait for ever
) -> Response:
    """The caller's events in order, page by page; with `follow=true` as server-sent events, those to come too.

    404 where no event is about the subject; who follows may wait for the first one.
    """
    services, tenant = services_of(request), tenant_of(request)
    if kind:
        await run_in_threadpool(services.events.check_kind, tenant, kind, KINDS)
    wanted = Wanted(kind, subject, actor, after, _time(since, "since"), _time(until, "until"))
    if follow:
        last = _position(request.headers.get("last-event-id", ""), "Last-Event-ID")
        stream = _stream(services, principal_of(request), replace(wanted, after=max(after, last)))
        return EventStream(stream, source=stream, headers={})
    wanted = replace(wanted, after=max(after, _position(page_token, "page_token")))
    found = await run_in_threadpool(services.events.page, tenant, wanted, page_size + 1)
    if subject and not found:
        await run_in_threadpool(services.events.check_subject, tenant, subject)
    token = str(found[page_size - 1].position) if len(found) > page_size else None
    return JSONResponse({"events": [event.to_json() for event in found[:page_size]], "next_page_token": token})


@router.get("/audit/head", openapi_extra=ours({200: HeadAnswer}))
async def head(request: Request) -> Response:
    """How many events there are, all tenants' together, and the hash of the last one: note it down elsewhere."""
    return JSONResponse(vars(await run_in_threadpool(services_of(request).events.head)))


@router.post("/audit/verify", openapi_extra=_VERIFY)
async def verify(request: Request) -> Response:
    """Check every hash of the log, all tenants' together."""
    services = services_of(request)
    body = await read_json(request, services.settings.max_body_bytes, VerifyBody, absent=b"{}")
    return JSONResponse((await run_in_threadpool(services.events.verify, body.expected_head)).to_json())


@router.get("/audit/chain", openapi_extra=ours({200: ChainPage}, errors=(400,)))
async def chain(
    request: Request,
    after: int = Query(0, ge=0, le=MAX_POSITION),
    page_size: int = Query(DEFAULT_PAGE, ge=1, le=MAX_PAGE),
) -> Response:
    """The whole chain in order, to be kept and checked elsewhere: the caller's events, and others' hashes."""
    found = await run_in_threadpool(services_of(request).events.links, tenant_of(request), after, page_size)
    return JSONResponse({"events": found})


async def _stream(services: Services, who: Principal, wanted: Wanted) -> AsyncGenerator[bytes, None]:
    """Events as they come, while who asked may still have them. Whoever reads slowly is read for slowly: nothing is
    kept for him meanwhile.
    """
    yield b"retry: 1000\n\n"
    clock = asyncio.get_running_loop().time
    spoken = clock()
    try:
        while not services.engine.closing:
            # NOTE: the log's end is looked up before the events are read, so that none in between is skipped.
            snapshot = services.snapshots.current()
            check_still(who, snapshot)
            end = snapshot.position
            if end > wanted.after:
                found = await run_in_threadpool(services.events.page, who.tenant, wanted, AT_ONCE)
                for event in found:
                    yield _told(event)
                    spoken = clock()
                last = found[-1].position if found else 0
                wanted = replace(wanted, after=last if len(found) == AT_ONCE else max(end, last))
                continue
            if clock() - spoken >= HEARTBEAT_S:
                yield b":\n\n"
                spoken = clock()
            await asyncio.sleep(LOOK_S)
    except GraftworkError as error:
        kind = kind_of(error)
        said = problem(error.message, kind, status=kind.status)
        yield f"event: error\ndata: {json.dumps(said)}\n\n".encode()


def _told(event: Event) -> bytes:
    return f"id: {event.position}\ndata: {json.dumps(event.to_json())}\n\n".encode()


def _position(text: str, field: str) -> int:
    if not text:
        return 0
    if not (text.isascii() and text.isdigit() and len(text) <= 16 and int(text) <= MAX_POSITION):
        raise InvalidRequest(f"{field} is not one that this list gave out.", field=field)
    return int(text)


def _time(text: str | None, field: str) -> str | None:
    return read_time(text, field=field) if text else None

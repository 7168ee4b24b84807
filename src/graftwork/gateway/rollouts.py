"""The doors of rollouts under /api/v1: started, listed, watched, and told to pause, resume, promote, abort, retry."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from typing import Any

from fastapi import APIRouter, Depends, Query
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from graftwork.access.principal import Principal
from graftwork.errors import GraftworkError
from graftwork.gateway.disconnect import EventStream
from graftwork.gateway.etags import tagged
from graftwork.gateway.idempotency import once_of
from graftwork.gateway.lifecycle import ReasonQuery
from graftwork.gateway.openapi import ours
from graftwork.gateway.origin import refuse_foreign_origin
from graftwork.gateway.request_body import read_json
from graftwork.gateway.services import Services, actor_of, principal_of, services_of, tenant_of
from graftwork.gateway.still_asking import check_still
from graftwork.protocol.errors import kind_of, problem
from graftwork.protocol.rollouts import (
    ActionBody,
    PromoteArmBody,
    RolloutAnswer,
    RolloutBody,
    RolloutList,
    RolloutStepList,
    Status,
)
from graftwork.traffic.rollouts.rollout import Rollout

router = APIRouter(tags=["rollouts"], dependencies=[Depends(refuse_foreign_origin)], default_response_class=Response)

DEFAULT_PAGE, MAX_PAGE = 100, 1000
#: How often a watcher looks whether its rollout has changed, in seconds; it costs microseconds.
LOOK_S = 0.2
#: How often he looks whether its arms stand otherwise, which is no change and asks the database; in seconds.
STANDING_S = 1.0
#: The least time between two events of which only the figures of standings differ, in seconds.
FIGURES_S = 30.0
#: The longest silence of a stream, in seconds.
HEARTBEAT_S = 15.0

_GET: dict[str, Any] = ours({200: RolloutAnswer}, errors=(400, 404))
_GET["responses"]["200"]["content"]["text/event-stream"] = {"schema": {"type": "string"}}


def _action(body: type[ActionBody] = ActionBody, status: int = 200) -> dict[str, Any]:
    told: dict[str, Any] = ours({status: RolloutAnswer}, body=body, errors=(404, 409, 412))
    told["requestBody"]["required"] = False
    return told


@router.post(
    "/rollouts", status_code=201, openapi_extra=ours({201: RolloutAnswer}, body=RolloutBody, errors=(404, 409))
)
async def start(request: Request, reason: ReasonQuery = None) -> Response:
    """Begin to move a route to another version; one of the same route that runs is superseded."""
    services = services_of(request)
    body = await read_json(request, services.settings.max_body_bytes, RolloutBody)
    found = await run_in_threadpool(
        services.rollouts.start,
        tenant_of(request),
        body.spec,
        actor=actor_of(request),
        reason=reason,
        once=once_of(request, body),
    )
    return _begun(found)


@router.get("/rollouts", openapi_extra=ours({200: RolloutList}, errors=(400,)))
async def list_rollouts(
    request: Request,
    status: Status | None = Query(None),
    page_size: int = Query(DEFAULT_PAGE, ge=1, le=MAX_PAGE),
    page_token: str = Query("", max_length=128),
) -> Response:
    """The newest rollout of each route, by route, page by page."""
    listing = services_of(request).rollouts.list
    found = await run_in_threadpool(
        listing, tenant_of(request), status=status, page_size=page_size, page_token=page_token
    )
    return JSONResponse({"rollouts": [one.to_json() for one in found.items], "next_page_token": found.next_page_token})


@router.get("/rollouts/{route}", openapi_extra=_GET)
async def show(
    request: Request,
    route: str,
    follow: bool = Query(False, include_in_schema=False),  # whoever tries out all doors would wait for ever
) -> Response:
    """Where the newest rollout of a route stands; with `follow=true` as server-sent events, until it ends."""
    services = services_of(request)
    found = await run_in_threadpool(services.rollouts.get, tenant_of(request), route)
    if follow:
        stream = _stream(services, principal_of(request), found)
        return EventStream(stream, source=stream, headers={})
    return tagged(found.to_json())


@router.get("/rollouts/{route}/steps", openapi_extra=ours({200: RolloutStepList}, errors=(400, 404)))
async def steps(
    request: Request,
    route: str,
    page_size: int = Query(DEFAULT_PAGE, ge=1, le=MAX_PAGE),
    page_token: str = Query("", max_length=64),
) -> Response:
    """What happened to the rollouts of a route, who did it and why, the newest first."""
    history = services_of(request).rollouts.history
    found = await run_in_threadpool(history, tenant_of(request), route, page_size=page_size, page_token=page_token)
    return JSONResponse({"steps": [dict(one) for one in found.items], "next_page_token": found.next_page_token})


@router.post("/rollouts/{route}/pause", openapi_extra=_action())
async def pause(request: Request, route: str) -> Response:
    """Keep everything as it is until somebody resumes."""
    return await _told(request, route, services_of(request).rollouts.pause)


@router.post("/rollouts/{route}/resume", openapi_extra=_action())
async def resume(request: Request, route: str) -> Response:
    """Go on; a step that waits for a person is done by this."""
    return await _told(request, route, services_of(request).rollouts.resume)


@router.post("/rollouts/{route}/promote", openapi_extra=_action(PromoteArmBody))
async def promote(request: Request, route: str) -> Response:
    """Let the route mean a candidate now, whatever is left to do."""
    return await _told(request, route, services_of(request).rollouts.promote, PromoteArmBody)


@router.post("/rollouts/{route}/abort", openapi_extra=_action())
async def abort(request: Request, route: str) -> Response:
    """Everybody is answered by the stable version again, at once."""
    return await _told(request, route, services_of(request).rollouts.abort)


@router.post("/rollouts/{route}/retry", status_code=201, openapi_extra=_action(status=201))
async def retry(request: Request, route: str) -> Response:
    """Begin an aborted rollout again, from its first step."""
    services = services_of(request)
    body = await read_json(request, services.settings.max_body_bytes, ActionBody, absent=b"{}")
    found = await run_in_threadpool(
        services.rollouts.retry,
        tenant_of(request),
        route,
        actor=actor_of(request),
        reason=body.reason,
        once=once_of(request, body),
        expected=body.revision,
    )
    return _begun(found)


async def _told(
    request: Request, route: str, change: Callable[..., Rollout], body: type[ActionBody] = ActionBody
) -> Response:
    said = await read_json(request, services_of(request).settings.max_body_bytes, body, absent=b"{}")
    more = {"arm": said.arm} if isinstance(said, PromoteArmBody) else {}
    told = {"actor": actor_of(request), "reason": said.reason, "expected": said.revision, **more}
    return tagged((await run_in_threadpool(change, tenant_of(request), route, **told)).to_json())


def _begun(found: Rollout) -> Response:
    answer = tagged(found.to_json())
    answer.status_code = 201
    answer.headers["location"] = f"/api/v1/rollouts/{found.route}"
    return answer


async def _stream(services: Services, who: Principal, found: Rollout) -> AsyncGenerator[bytes, None]:
    """The rollout each time that it has changed, or gates have come to something else; it ends with the rollout."""
    yield b"retry: 1000\n\n" + _event(found)
    clock = asyncio.get_running_loop().time
    spoken = told = looked = clock()
    seen = 0
    try:
        while not found.state.ended and not services.engine.closing:
            await asyncio.sleep(LOOK_S)
            snapshot = services.snapshots.current()
            check_still(who, snapshot)
            if snapshot.position != seen or clock() - looked >= STANDING_S:
                now = await run_in_threadpool(services.rollouts.get, who.tenant, found.route)
                seen, looked = snapshot.position, clock()
                figures = now.analyses != found.analyses and looked - told >= FIGURES_S
                if figures or _news(now) != _news(found):
                    found, spoken, told = now, looked, looked
                    yield _event(found)
            if clock() - spoken >= HEARTBEAT_S:
                spoken = clock()
                yield b":\n\n"
    except GraftworkError as error:
        kind = kind_of(error)
        yield f"event: error\ndata: {json.dumps(problem(error.message, kind, status=kind.status))}\n\n".encode()


def _news(one: Rollout) -> tuple[object, ...]:
    """What whoever watches is told at once: changes, what it waits for, and what each metric has come to."""
    results = [
        (standing["arm"], standing["name"], standing["since"], metric["name"], metric["result"])
        for standing in one.analyses
        for metric in standing["metrics"]
    ]
    return one.revision, one.changes, one.to_json()["waits_for"], results


def _event(found: Rollout) -> bytes:
    return f"id: {found.revision}.{found.changes}\ndata: {json.dumps(found.to_json())}\n\n".encode()

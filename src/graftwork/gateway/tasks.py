"""The doors of tasks as resources, under /api/v1/tasks; `task_runs.py` is the one that runs them."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from graftwork.errors import GraftworkError, InvalidRequest
from graftwork.gateway.etags import expected_of, tagged
from graftwork.gateway.openapi import ours
from graftwork.gateway.origin import refuse_foreign_origin
from graftwork.gateway.request_body import read_json
from graftwork.gateway.services import Services, actor_of, services_of, tenant_of
from graftwork.protocol.registry import MAX_REASON
from graftwork.protocol.resource import API_VERSION
from graftwork.protocol.tasks import TaskDocument, TaskList, TaskResource, TaskRevisionList
from graftwork.traffic.choice import Asked, choose
from graftwork.traffic.routes.table import RouteTable
from graftwork.traffic.tasks.result import grammar_of
from graftwork.traffic.tasks.tasks import Task

router = APIRouter(tags=["tasks"], dependencies=[Depends(refuse_foreign_origin)], default_response_class=Response)

ReasonQuery = Annotated[str | None, Query(max_length=MAX_REASON)]
PageSize = Annotated[int, Query(ge=1, le=1000)]
PageToken = Annotated[str, Query(max_length=128)]


@router.get("/tasks", openapi_extra=ours({200: TaskList}, errors=(400,)))
async def list_tasks(request: Request, page_size: PageSize = 100, page_token: PageToken = "") -> Response:
    """Every task as it is now, by name, page by page."""
    services = services_of(request)
    page = await run_in_threadpool(
        services.tasks.list, tenant_of(request), page_size=page_size, page_token=page_token or None
    )
    found = [_document(services, task) for task in page.items]
    return JSONResponse({"tasks": found, "next_page_token": page.next_page_token})


@router.get("/tasks/{name}", openapi_extra=ours({200: TaskDocument}, errors=(404,)))
async def show_task(request: Request, name: str) -> Response:
    """A task as it is now; its ETag is the digest of its spec."""
    services = services_of(request)
    return _tagged(services, await run_in_threadpool(services.tasks.show, tenant_of(request), name))


@router.put(
    "/tasks/{name}",
    openapi_extra=ours({200: TaskDocument, 201: TaskDocument}, body=TaskResource, errors=(412, 429, 503)),
)
async def set_task(request: Request, name: str, reason: ReasonQuery = None) -> Response:
    """Make this what the name means: 201 where it meant nothing. Each change is a new revision."""
    services = services_of(request)
    body = await read_json(request, services.settings.max_body_bytes, TaskResource)
    if body.metadata.name != name:
        raise InvalidRequest(
            f"metadata.name is {body.metadata.name!a}, and the path names {name[:128]!a}.", field="metadata.name"
        )
    if (grammar := grammar_of(body.spec.output)) is not None:
        await services.task_forms.check(grammar, tenant_of(request))
    task, created = await run_in_threadpool(
        services.tasks.set,
        tenant_of(request),
        name,
        body.spec,
        expected=expected_of(request),
        actor=actor_of(request),
        reason=reason,
    )
    answer = _tagged(services, task)
    if created:
        answer.status_code = 201
        answer.headers["location"] = f"/api/v1/tasks/{name}"
    return answer


@router.delete("/tasks/{name}", status_code=204, openapi_extra=ours({204: None}, errors=(400, 403, 404, 412)))
async def remove_task(request: Request, name: str, reason: ReasonQuery = None) -> Response:
    """Let the name mean nothing; its revisions stay."""
    await run_in_threadpool(
        services_of(request).tasks.remove,
        tenant_of(request),
        name,
        expected=expected_of(request),
        actor=actor_of(request),
        reason=reason,
    )
    return Response(status_code=204)


@router.get("/tasks/{name}/revisions", openapi_extra=ours({200: TaskRevisionList}, errors=(400, 404)))
async def list_task_revisions(
    request: Request, name: str, page_size: PageSize = 100, page_token: PageToken = ""
) -> Response:
    """Every content that a task had, the newest first, with who and why."""
    page = await run_in_threadpool(
        services_of(request).tasks.revisions,
        tenant_of(request),
        name,
        page_size=page_size,
        page_token=page_token or None,
    )
    found = [_revision(one) for one in page.items]
    return JSONResponse({"revisions": found, "next_page_token": page.next_page_token})


def _tagged(services: Services, task: Task) -> JSONResponse:
    return tagged(_document(services, task), task.revision.digest)


def _document(services: Services, task: Task) -> dict[str, Any]:
    revision = task.revision
    status = {
        "revision": revision.number,
        "digest": revision.digest,
        "updated_at": task.updated_at,
        "updated_by": task.updated_by,
        "answers": _meant(services, task),
    }
    named = {"apiVersion": API_VERSION, "kind": "Task", "metadata": {"name": task.name}}
    return {**named, "spec": task.spec.to_json(), "status": status}


def _revision(task: Task) -> dict[str, Any]:
    made = task.revision
    who = {"reason": made.reason, "created_at": made.created_at, "created_by": made.created_by}
    return {**made.brief(), "spec": task.spec.to_json(), **who}


def _meant(services: Services, task: Task) -> str | None:
    """What its adapter means now, where it means anything; of a route, who asks decides."""
    named, versions = task.spec.adapter, services.snapshots.current()
    if named is not None and versions.part(RouteTable).find(task.tenant, named) is not None:
        return named
    asked = Asked(model=named)
    try:
        return choose(asked, tenant=task.tenant, base=services.base, versions=versions).model
    except GraftworkError:
        return None

"""The doors of tasks as resources, under /api/v1/tasks; `task_runs.py` is the one that runs them."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Depends
from starlette.responses import Response

from graftwork.errors import GraftworkError, InvalidRequest, InvalidResource
from graftwork.gateway.origin import refuse_foreign_origin
from graftwork.gateway.resources import ResourceDoors
from graftwork.gateway.services import Services
from graftwork.protocol.resource_answers import TaskAnswer, TaskList, TaskRevisions
from graftwork.protocol.tasks import TaskSpec
from graftwork.traffic.choice import choose
from graftwork.traffic.decision import Asked
from graftwork.traffic.routes.table import RouteTable
from graftwork.traffic.tasks.result import grammar_of
from graftwork.traffic.tasks.tasks import TASK, Task

router = APIRouter(tags=["tasks"], dependencies=[Depends(refuse_foreign_origin)], default_response_class=Response)


def _status(services: Services, task: Task) -> dict[str, Any]:
    return {"answers": _meant(services, task)}


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


async def check_form(services: Services, tenant: str, spec: TaskSpec) -> float:
    """Try the form that answers are held to, in a process; how long that took it, in seconds of a processor.

    Raises:
        InvalidResource: no answer can be held to it. Unavailable, TooManyRequests: it cannot be tried now.
    """
    if (grammar := grammar_of(spec.output)) is None:
        return 0.0
    try:
        return await services.task_forms.check(grammar, tenant)
    except InvalidRequest as error:
        raise InvalidResource(error.message, field=error.field) from error


ResourceDoors(
    "/tasks",
    TASK,
    lambda services: services.tasks,
    TaskAnswer,
    TaskList,
    TaskRevisions,
    _status,
    check_form,
    busy=(429, 503),
).add_to(router)

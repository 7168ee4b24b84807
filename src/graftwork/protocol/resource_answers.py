"""What the doors of routes, tasks and analysis templates take and give beside the documents themselves."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from graftwork.protocol.analysis_template import AnalysisTemplate
from graftwork.protocol.answers import Shape
from graftwork.protocol.promotions import PromotionDocument
from graftwork.protocol.registry import OurBody, Reason
from graftwork.protocol.resource import Resource
from graftwork.protocol.routes import RouteResource
from graftwork.protocol.tasks import TaskResource


class ResourceRollbackBody(OurBody):
    """POST …/rollback: to which revision, else the one that was live before; and why."""

    revision: int | None = Field(default=None, ge=1, lt=2**53)
    expected: str | None = None
    reason: Reason = None


class ResourceStatus(Resource):
    """Which revision this is, and since when it is the live one, and by whom; nulls where another one is, or none."""

    revision: int
    live: bool
    digest: str
    created_at: str
    created_by: str
    reason: str | None
    updated_at: str | None
    updated_by: str | None


class Condition(Resource):
    """One statement about a route, as Kubernetes has it."""

    type: str
    status: Literal["True", "False"]
    reason: str
    message: str


class RouteStatus(ResourceStatus):
    """`conditions` say whether its targets can answer now."""

    conditions: list[Condition]


class RouteAnswer(RouteResource):
    """A route as it is."""

    status: RouteStatus  # type: ignore[assignment]


class RouteList(Shape):
    """Some of a tenant's routes, by name."""

    routes: list[RouteAnswer]
    next_page_token: str | None


class RouteRevisions(Shape):
    """Some of a route's revisions, the newest first."""

    revisions: list[RouteAnswer]
    next_page_token: str | None


class TaskStatus(ResourceStatus):
    """`answers` is the version that its adapter means now, null where there is none."""

    answers: str | None


class TaskAnswer(TaskResource):
    """A task as it is."""

    status: TaskStatus  # type: ignore[assignment]


class TaskList(Shape):
    """Some of a tenant's tasks, by name."""

    tasks: list[TaskAnswer]
    next_page_token: str | None


class TaskRevisions(Shape):
    """Some of a task's revisions, the newest first."""

    revisions: list[TaskAnswer]
    next_page_token: str | None


class TemplateAnswer(AnalysisTemplate):
    """An analysis template as it is."""

    status: ResourceStatus  # type: ignore[assignment]


class TemplateList(Shape):
    """Some of a tenant's analysis templates, by name."""

    templates: list[TemplateAnswer]
    next_page_token: str | None


class TemplateRevisions(Shape):
    """Some of a template's revisions, the newest first."""

    revisions: list[TemplateAnswer]
    next_page_token: str | None


class PromotionAnswer(PromotionDocument):
    """A promotion policy as it is."""

    status: ResourceStatus  # type: ignore[assignment]


class PromotionList(Shape):
    """Some of a tenant's promotion policies, by name."""

    promotions: list[PromotionAnswer]
    next_page_token: str | None


class PromotionRevisions(Shape):
    """Some of a promotion policy's revisions, the newest first."""

    revisions: list[PromotionAnswer]
    next_page_token: str | None

"""add_doors: list, show, set, remove, revisions and rollback of the resources of one kind, alike for all kinds."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Query
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from graftwork.errors import InvalidResource
from graftwork.gateway.etags import expected_of, tagged
from graftwork.gateway.idempotency import once_of
from graftwork.gateway.openapi import ours
from graftwork.gateway.request_body import read_json
from graftwork.gateway.services import Services, actor_of, services_of, tenant_of
from graftwork.protocol.registry import MAX_REASON
from graftwork.protocol.resource_answers import ResourceRollbackBody
from graftwork.traffic.resources.kind import Kind
from graftwork.traffic.resources.resource import Resource
from graftwork.traffic.resources.resources import Resources

PageSize = Annotated[int, Query(ge=1, le=1000)]
PageToken = Annotated[str, Query(max_length=128)]
ReasonQuery = Annotated[str | None, Query(max_length=MAX_REASON)]
RevisionQuery = Annotated[int | None, Query(ge=1, lt=2**53)]


async def _nothing(services: Services, tenant: str, spec: Any) -> None:
    """What most kinds check beyond their spec."""


@dataclass(frozen=True)
class ResourceDoors:
    """What the doors of a kind need to know of it."""

    path: str  #: under /api/v1
    kind: Kind[Any, Any]
    resources: Callable[[Services], Resources[Any, Any]]
    answer: type[BaseModel]
    listing: type[BaseModel]
    history: type[BaseModel]
    #: What the server says of one beside its revision; in a worker thread.
    status: Callable[[Services, Any], dict[str, Any]] = lambda services, one: {}
    #: What takes a process or a model to find wrong with a spec; raises InvalidResource.
    check: Callable[[Services, str, Any], Awaitable[None]] = _nothing
    busy: tuple[int, ...] = ()  #: statuses of that

    def told(self, services: Services, one: Resource[Any]) -> dict[str, Any]:
        """The document of one, with its status."""
        made = one.revision
        status = {
            "revision": made.number,
            "live": one.live,
            "digest": made.digest,
            "createdAt": made.created_at,
            "createdBy": made.created_by,
            "reason": made.reason,
            "updatedAt": one.updated_at,
            "updatedBy": one.updated_by,
        }
        return {**self.kind.document_of(one), "status": {**status, **self.status(services, one)}}

    async def answered(
        self, request: Request, call: Callable[..., Resource[Any]], *args: Any, **named: Any
    ) -> Response:
        """What the call gives, with its digest as ETag."""
        services, tenant = services_of(request), tenant_of(request)

        def work() -> tuple[dict[str, Any], str]:
            one = call(tenant, *args, **named)
            return self.told(services, one), one.revision.digest

        return tagged(*await run_in_threadpool(work))


def add_doors(router: APIRouter, doors: ResourceDoors) -> None:
    """Make the doors of a kind; what each of them asks for stands in `doors.DOORS`, as of any other."""
    path, noun, many = doors.path, doors.kind.noun, doors.kind.many
    one_path = f"{path}/{{name}}"

    async def list_all(request: Request, page_size: PageSize = 100, page_token: PageToken = "") -> Response:
        services, tenant = services_of(request), tenant_of(request)

        def work() -> dict[str, Any]:
            page = doors.resources(services).list(tenant, page_size=page_size, page_token=page_token)
            found = [doors.told(services, one) for one in page.items]
            return {many: found, "next_page_token": page.next_page_token}

        return JSONResponse(await run_in_threadpool(work))

    async def show(request: Request, name: str, revision: RevisionQuery = None) -> Response:
        return await doors.answered(request, doors.resources(services_of(request)).show, name, revision)

    async def set_one(request: Request, name: str, reason: ReasonQuery = None) -> Response:
        services, tenant = services_of(request), tenant_of(request)
        body = await read_json(request, services.settings.max_body_bytes, doors.kind.document)
        if body.metadata.name != name:
            said = f"metadata.name is {body.metadata.name!a}, and the path names {name[:128]!a}."
            raise InvalidResource(said, field="metadata.name")
        await doors.check(services, tenant, body.spec)
        made: list[bool] = []

        def change(tenant: str) -> Resource[Any]:
            told: dict[str, Any] = {"actor": actor_of(request), "reason": reason}
            one: Resource[Any]
            one, new = doors.resources(services).set(tenant, name, body.spec, expected=expected_of(request), **told)
            made.append(new)
            return one

        answer = await doors.answered(request, change)
        if made[0]:
            answer.status_code = 201
            answer.headers["location"] = f"/api/v1{path}/{quote(name)}"
        return answer

    async def remove(request: Request, name: str, reason: ReasonQuery = None) -> Response:
        told: dict[str, Any] = {"expected": expected_of(request), "actor": actor_of(request), "reason": reason}
        await run_in_threadpool(doors.resources(services_of(request)).remove, tenant_of(request), name, **told)
        return Response(status_code=204)

    async def revisions(request: Request, name: str, page_size: PageSize = 100, page_token: PageToken = "") -> Response:
        services, tenant = services_of(request), tenant_of(request)

        def work() -> dict[str, Any]:
            page = doors.resources(services).revisions(tenant, name, page_size=page_size, page_token=page_token)
            found = [doors.told(services, one) for one in page.items]
            return {"revisions": found, "next_page_token": page.next_page_token}

        return JSONResponse(await run_in_threadpool(work))

    async def rollback(request: Request, name: str) -> Response:
        services = services_of(request)
        body = await read_json(request, services.settings.max_body_bytes, ResourceRollbackBody, absent=b"{}")
        return await doors.answered(
            request,
            doors.resources(services).rollback,
            name,
            revision=body.revision,
            expected=expected_of(request, body.expected),
            actor=actor_of(request),
            reason=body.reason,
            once=once_of(request, body),
        )

    told = ours({200: doors.listing}, errors=(400,))
    router.get(path, description=f"Every {noun}, by name, page by page.", openapi_extra=told)(list_all)
    said = f"The live revision of one {noun}, or another; its ETag is the revision's digest, for `If-Match`."
    router.get(one_path, description=said, openapi_extra=ours({200: doors.answer}, errors=(400, 404)))(show)
    said = "Make a document what the name means: 201 where it meant nothing. What it means already changes nothing."
    answers = {200: doors.answer, 201: doors.answer}
    told = ours(answers, body=doors.kind.document, errors=(409, 412, 422, *doors.busy))
    router.put(one_path, description=said, openapi_extra=told)(set_one)
    said = "Let the name mean nothing; its revisions stay, and it counts on from them when it is set again."
    told = ours({204: None}, errors=(400, 403, 404, 412))
    router.delete(one_path, status_code=204, description=said, openapi_extra=told)(remove)
    said = "All that the name ever meant, the newest first, page by page, with who and why."
    told = ours({200: doors.history}, errors=(400, 404))
    router.get(f"{one_path}/revisions", description=said, openapi_extra=told)(revisions)
    said = "Make the revision live that was it before, or the one that the body names."
    told = ours({200: doors.answer}, body=ResourceRollbackBody, errors=(404, 409, 412))
    router.post(f"{one_path}/rollback", description=said, openapi_extra=told)(rollback)

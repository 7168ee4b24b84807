"""ResourceDoors: list, show, set, remove, revisions and rollback of the resources of one kind, alike for all kinds."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
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
from graftwork.registry.page import Page
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
    """The doors of one kind, and what they need to know of it."""

    path: str  #: under /api/v1
    kind: Kind[Any, Any]
    of: Callable[[Services], Resources[Any, Any]]
    answer: type[BaseModel]
    listing: type[BaseModel]
    history: type[BaseModel]
    #: What the server says of one beside its revision; in a worker thread.
    status: Callable[[Services, Any], dict[str, Any]] = lambda services, one: {}
    #: What takes a process or a model to find wrong with a spec; raises InvalidResource.
    check: Callable[[Services, str, Any], Awaitable[object]] = _nothing
    busy: tuple[int, ...] = ()  #: statuses of that

    def add_to(self, router: APIRouter) -> None:
        """Make the doors; what each of them asks for stands in `doors.DOORS`, as of any other."""
        every, one = self.path, f"{self.path}/{{name}}"
        set_told = ours(
            {200: self.answer, 201: self.answer}, body=self.kind.document, errors=(409, 412, 422, *self.busy)
        )
        removed = ours({204: None}, errors=(400, 403, 404, 412))
        back = ours({200: self.answer}, body=ResourceRollbackBody, errors=(404, 409, 412))
        router.get(every, openapi_extra=ours({200: self.listing}, errors=(400,)))(self.list)
        router.get(one, openapi_extra=ours({200: self.answer}, errors=(400, 404)))(self.show)
        router.put(one, openapi_extra=set_told)(self.set)
        router.delete(one, status_code=204, openapi_extra=removed)(self.remove)
        router.get(f"{one}/revisions", openapi_extra=ours({200: self.history}, errors=(400, 404)))(self.revisions)
        router.post(f"{one}/rollback", openapi_extra=back)(self.rollback)

    async def list(self, request: Request, page_size: PageSize = 100, page_token: PageToken = "") -> Response:
        """All that there are, by name, page by page."""
        page = partial(self.of(services_of(request)).list, page_size=page_size, page_token=page_token)
        return await self._listed(request, self.kind.many, page)

    async def show(self, request: Request, name: str, revision: RevisionQuery = None) -> Response:
        """The live revision, or another; its ETag is the revision's digest, for `If-Match`."""
        return await self._answered(request, partial(self.of(services_of(request)).show, name=name, revision=revision))

    async def set(self, request: Request, name: str, reason: ReasonQuery = None) -> Response:
        """Make a document what the name means: 201 where it meant nothing. What it means already changes nothing."""
        services, expected, actor = services_of(request), expected_of(request), actor_of(request)
        body = await read_json(request, services.settings.max_body_bytes, self.kind.document)
        if body.metadata.name != name:
            said = f"metadata.name is {body.metadata.name!a}, and the path names {name[:128]!a}."
            raise InvalidResource(said, field="metadata.name")
        await self.check(services, tenant_of(request), body.spec)
        created = False

        def change(tenant: str) -> Resource[Any]:
            nonlocal created
            made: Resource[Any]
            made, created = self.of(services).set(
                tenant, name, body.spec, expected=expected, actor=actor, reason=reason
            )
            return made

        answer = await self._answered(request, change)
        if created:
            answer.status_code = 201
            answer.headers["location"] = f"/api/v1{self.path}/{quote(name)}"
        return answer

    async def remove(self, request: Request, name: str, reason: ReasonQuery = None) -> Response:
        """Let the name mean nothing; its revisions stay, and it counts on from them when it is set again."""
        told: dict[str, Any] = {"expected": expected_of(request), "actor": actor_of(request), "reason": reason}
        await run_in_threadpool(self.of(services_of(request)).remove, tenant_of(request), name, **told)
        return Response(status_code=204)

    async def revisions(
        self, request: Request, name: str, page_size: PageSize = 100, page_token: PageToken = ""
    ) -> Response:
        """All that the name ever meant, the newest first, page by page, with who and why."""
        found = self.of(services_of(request)).revisions
        return await self._listed(
            request, "revisions", partial(found, name=name, page_size=page_size, page_token=page_token)
        )

    async def rollback(self, request: Request, name: str) -> Response:
        """Make the revision live that was it before, or the one that the body names."""
        services = services_of(request)
        body = await read_json(request, services.settings.max_body_bytes, ResourceRollbackBody, absent=b"{}")
        back = partial(
            self.of(services).rollback,
            name=name,
            revision=body.revision,
            expected=expected_of(request, body.expected),
            actor=actor_of(request),
            reason=body.reason,
            once=once_of(request, body),
        )
        return await self._answered(request, back)

    async def _answered(self, request: Request, call: Callable[[str], Resource[Any]]) -> Response:
        """What the call gives of the tenant who asks, with its digest as ETag."""
        services, tenant = services_of(request), tenant_of(request)

        def work() -> tuple[dict[str, Any], str]:
            one = call(tenant)
            return self._told(services, one), one.revision.digest

        return tagged(*await run_in_threadpool(work))

    async def _listed(self, request: Request, entries: str, call: Callable[[str], Page[Any]]) -> Response:
        services, tenant = services_of(request), tenant_of(request)

        def work() -> dict[str, Any]:
            page = call(tenant)
            found = [self._told(services, one) for one in page.items]
            return {entries: found, "next_page_token": page.next_page_token}

        return JSONResponse(await run_in_threadpool(work))

    def _told(self, services: Services, one: Resource[Any]) -> dict[str, Any]:
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

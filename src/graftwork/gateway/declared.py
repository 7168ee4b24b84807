"""The doors of what is applied: plan, apply, export, and the schemas of documents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Query
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from graftwork.access.names import check_name
from graftwork.access.roles import Right
from graftwork.declared.applier import Asked
from graftwork.declared.document import Declared, about, read_documents
from graftwork.declared.kinds import KINDS, schema_of
from graftwork.errors import Forbidden, InvalidRequest, NotFound
from graftwork.gateway.openapi import ours
from graftwork.gateway.origin import refuse_foreign_origin
from graftwork.gateway.request_body import read_json
from graftwork.gateway.services import Services, actor_of, principal_of, services_of, tenant_of
from graftwork.gateway.tasks import check_form
from graftwork.protocol.declared import ApplyBody, ExportAnswer, PlanAnswer, PlanBody, SchemaList
from graftwork.protocol.tasks import TaskResource
from graftwork.traffic.tasks.live import LiveTasks
from graftwork.traffic.tasks.result import grammar_of

router = APIRouter(tags=["declared"], dependencies=[Depends(refuse_foreign_origin)], default_response_class=Response)
_ERRORS = (404, 409, 412, 422, 429, 503)
#: What all forms of one request may take to be tried, in seconds of a processor; an ordinary one takes a thousandth.
FORMS_S: Final = 4.0


@router.post("/plan", openapi_extra=ours({200: PlanAnswer}, body=PlanBody, errors=_ERRORS))
async def plan(request: Request) -> Response:
    """What applying these documents would do, resource by resource and field by field, and what stands in the way."""
    services = services_of(request)
    body = await read_json(request, services.settings.max_body_bytes, PlanBody)
    asked = await _asked(request, body)
    made = await run_in_threadpool(services.applier.plan, asked)
    return JSONResponse(made.to_json(applied=False))


@router.post("/apply", openapi_extra=ours({200: PlanAnswer}, body=ApplyBody, errors=_ERRORS))
async def apply(request: Request) -> Response:
    """Make it so, all of it or nothing; secrets of new webhooks are shown this once."""
    services = services_of(request)
    body = await read_json(request, services.settings.max_body_bytes, ApplyBody)
    asked = await _asked(request, body, reason=body.reason)
    if body.dry_run:
        made = await run_in_threadpool(services.applier.plan, asked)
    else:
        made = await run_in_threadpool(services.applier.apply, asked, seen=body.plan)
    return JSONResponse(made.to_json(applied=not body.dry_run), headers={"cache-control": "no-store"})


@router.get("/export", openapi_extra=ours({200: ExportAnswer}, errors=(400,)))
async def export(request: Request, kind: Annotated[list[str] | None, Query(max_length=len(KINDS))] = None) -> Response:
    """The documents of all that there is, or of the kinds that are named, as apply takes them."""
    applier, rights = services_of(request).applier, principal_of(request).rights
    documents, left_out = await run_in_threadpool(applier.export, tenant_of(request), rights, kind or ())
    return JSONResponse({"documents": documents, "left_out": left_out})


@router.get("/schemas", openapi_extra=ours({200: SchemaList}))
async def list_schemas(request: Request) -> Response:
    """The kinds that can be applied, in the order in which they are."""
    return JSONResponse({"kinds": list(KINDS)})


@router.get("/schemas/{kind}", openapi_extra=ours({200: "application/schema+json"}, errors=(404,)))
async def show_schema(request: Request, kind: str) -> Response:
    """The JSON Schema (2020-12) of a kind's documents."""
    try:
        schema = schema_of(kind)
    except InvalidRequest as error:
        raise NotFound(error.message) from error
    return JSONResponse(schema, media_type="application/schema+json")


async def _asked(request: Request, body: PlanBody, reason: str | None = None) -> Asked:
    if Right.READ not in principal_of(request).rights:
        raise Forbidden("Your key may not do this: the answer tells what there was, so it needs the right to read.")
    unnamed = "set" not in body.model_fields_set
    if unnamed and body.prune == "set":
        raise InvalidRequest('"prune": "set" takes away what the same set had before: name it by "set".', field="set")
    documents = await run_in_threadpool(read_documents, body.documents)
    await _try_forms(services_of(request), tenant_of(request), documents)
    return Asked(
        tenant=tenant_of(request),
        actor=actor_of(request),
        rights=principal_of(request).rights,
        documents=documents,
        set=check_name(body.set, what="set"),
        implied=body.implied or unnamed,
        prune=body.prune,
        reason=reason,
    )


async def _try_forms(services: Services, tenant: str, documents: Sequence[Declared]) -> None:
    """As the door of tasks does: a form that no model can be held to is refused; what is live was tried before.

    Raises:
        InvalidResource: naming the task, where that is so, or those before it took as long as all of them may.
    """
    live = services.snapshots.current().part(LiveTasks).of(tenant)
    spent_s = 0.0
    for one in documents:
        if not isinstance(one.body, TaskResource):
            continue
        spec, there = one.body.spec, live.get(one.name)
        if (grammar := grammar_of(spec.output)) is None or (there is not None and there.spec.output == spec.output):
            continue
        try:
            if spent_s >= FORMS_S:
                raise InvalidRequest(
                    f"the forms of the tasks before it took {FORMS_S:g} s to try, which is all that one request may. "
                    "Apply the tasks in several parts, or with simpler forms.",
                    field=grammar.field,
                )
            spent_s += await check_form(services, tenant, spec)
        except InvalidRequest as error:
            raise about(one.place, InvalidRequest(f"{one.label}: {error.message}", field=error.field)) from error

"""The doors of analysis under /api/v1: templates as resources, and what one says of given evidence."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Depends
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from graftwork.gateway.openapi import ours
from graftwork.gateway.origin import refuse_foreign_origin
from graftwork.gateway.request_body import read_json
from graftwork.gateway.resources import ResourceDoors
from graftwork.gateway.services import services_of
from graftwork.protocol.evidence import AnalysisCheckBody, AnalysisVerdict, ArmBody, EvidenceBody
from graftwork.protocol.resource_answers import TemplateAnswer, TemplateList, TemplateRevisions
from graftwork.traffic.gates.arguments import fill, given, told
from graftwork.traffic.gates.evidence import Arm, Evidence
from graftwork.traffic.gates.gates import judge
from graftwork.traffic.gates.templates import TEMPLATE
from graftwork.traffic.observation import Observation

router = APIRouter(tags=["analysis"], dependencies=[Depends(refuse_foreign_origin)], default_response_class=Response)


ResourceDoors(
    "/analysis/templates",
    TEMPLATE,
    lambda services: services.templates,
    TemplateAnswer,
    TemplateList,
    TemplateRevisions,
).add_to(router)


@router.post("/analysis/check", openapi_extra=ours({200: AnalysisVerdict}, body=AnalysisCheckBody))
async def check(request: Request) -> Response:
    """Read an AnalysisTemplate, fill its arguments in, and judge evidence by it where there is some; nothing is kept.

    Without arguments and evidence, one that needs values is read as far as that goes without them.
    """
    body = await read_json(request, services_of(request).settings.max_body_bytes, AnalysisCheckBody)
    return JSONResponse(await run_in_threadpool(_judged, body))


def _judged(body: AnalysisCheckBody) -> dict[str, Any]:
    name, spec = body.template.metadata.name, body.template.spec
    if body.evidence is None and not body.args:
        return {"name": name, "args": [], "result": None, "reason": "The template can be used.", "metrics": []}
    filled = fill(name, spec, given(body.args))
    of = {"name": name, "args": told(filled.args)}
    if body.evidence is None:
        return {**of, "result": None, "reason": "The template can be used with these arguments.", "metrics": []}
    found = judge(filled.spec, _evidence(body.evidence))
    metrics = [
        {"name": one.metric, "result": one.result, "reason": one.reason, "figures": dict(one.figures)}
        for one in found.metrics
    ]
    return {**of, "result": found.whole.result, "reason": found.whole.reason, "metrics": metrics}


def _evidence(body: EvidenceBody) -> Evidence:
    return Evidence(_arm(body.candidate, "candidate"), _arm(body.stable, "stable"), body.baseline)


def _arm(body: ArmBody, name: str) -> Arm:
    observations = [
        Observation(**{**dict(one), "at": one.at or "", "arm": one.arm or name}) for one in body.observations
    ]
    return Arm(observations, [one.root for one in body.evaluations], body.distributions)

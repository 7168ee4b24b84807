"""/health, /ready, /metrics, and what the server says of its base and its engine."""

from __future__ import annotations

from dataclasses import asdict

from fastapi import APIRouter, Depends
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from graftwork.gateway.openapi import ours
from graftwork.gateway.origin import refuse_foreign_origin
from graftwork.gateway.services import services_of
from graftwork.protocol.registry_answers import Facts, Health, Ready, WeightsCheck

router = APIRouter(tags=["system"], default_response_class=Response)

#: Paths and lists of the outline that are long and that nobody calling this door needs.
_LONG = ("linears", "modules", "ties", "embed", "head", "blocks", "tokenizer")


@router.get("/health", openapi_extra=ours({200: Health}, for_all=True))
async def health() -> Response:
    """200 as long as the process answers."""
    return JSONResponse({"status": "ok"})


@router.get("/ready", openapi_extra=ours({200: Ready, 503: Ready}, for_all=True))
async def ready(request: Request) -> Response:
    """200 when the base is in, the kernels are warm and pinned adapters are loaded; else 503 with reasons."""
    reasons = services_of(request).engine.reasons()
    return JSONResponse({"ready": not reasons, "reasons": list(reasons)}, 503 if reasons else 200)


@router.get("/metrics", openapi_extra=ours({200: "text/plain"}))
async def metrics(request: Request) -> Response:
    """Every metric in Prometheus' text format."""
    page, content_type = await run_in_threadpool(services_of(request).telemetry.render)  # it looks at disks
    return Response(page, media_type=content_type)


@router.get("/api/v1/base", openapi_extra=ours({200: Facts}, errors=(503,)))
async def base(request: Request) -> Response:
    """The base model: its name, its shape and the digest of its weights."""
    services = services_of(request)
    outline = await run_in_threadpool(services.outline_of)
    facts = {key: value for key, value in asdict(outline).items() if key not in _LONG}
    return JSONResponse({"name": services.base, **facts, "linear_sites": len(outline.linears)})


@router.post(
    "/api/v1/base/verify",
    dependencies=[Depends(refuse_foreign_origin)],
    openapi_extra=ours({200: WeightsCheck}, errors=(403, 503)),
)
async def verify_base(request: Request) -> Response:
    """Hash the weights in memory again and compare with what was loaded: W is frozen."""
    engine = services_of(request).engine.get()
    expected, actual = engine.loaded_digest, await engine.weights_digest()
    return JSONResponse({"expected": expected, "actual": actual, "ok": expected == actual})


@router.get("/api/v1/engine", openapi_extra=ours({200: Facts}, errors=(503,)))
async def engine_stats(request: Request) -> Response:
    """The engine's numbers now."""
    services = services_of(request)
    services.engine.get()
    return JSONResponse(dict(await run_in_threadpool(services.engine.stats)))  # it looks at disks

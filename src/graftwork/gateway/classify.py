"""POST /v1/classify: texts as classes, by an adapter that was trained with a head for them; the body is vLLM's."""

from __future__ import annotations

import time
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from graftwork.engine.pooled import probabilities
from graftwork.engine.request import Pooled
from graftwork.gateway.choosing import choose_for
from graftwork.gateway.disconnect import unless_gone
from graftwork.gateway.openapi import inference
from graftwork.gateway.poolings import pooling_requests, usage
from graftwork.gateway.request_body import read_json
from graftwork.gateway.route_defaults import with_companions
from graftwork.gateway.services import services_of
from graftwork.protocol.answers import ClassifyAnswer
from graftwork.protocol.pooling import ClassifyRequest

router = APIRouter(prefix="/v1", tags=["inference"], default_response_class=Response)


@router.post("/classify", openapi_extra=inference(ClassifyAnswer, body=ClassifyRequest))
async def classify(request: Request) -> Response:
    """The likeliest class of each input, in order, with the probabilities of all."""
    services = services_of(request)
    body = await read_json(request, services.settings.max_body_bytes, ClassifyRequest)
    chosen = await choose_for(request, services, body)
    body = with_companions(body, chosen.signature.decision)
    requests = pooling_requests(chosen.signature.request_id, body, "classes", chosen.adapter, chosen.caller)
    running = services.poolings.run(chosen.engine, requests, chosen.model, chosen.draft)
    results = await unless_gone(request.receive, running)
    answer = {
        "id": f"classify-{chosen.signature.request_id}",
        "object": "list",
        "created": int(time.time()),
        "model": chosen.model,
        "data": [_classified(index, one, logits=bool(body.logits)) for index, one in enumerate(results)],
        "usage": {**usage(results), "completion_tokens": 0},
        "graftwork": chosen.signature.to_json(),
    }
    return JSONResponse(answer, headers=chosen.signature.headers())


def _classified(index: int, result: Pooled, *, logits: bool) -> dict[str, Any]:
    probs = probabilities(result.values)
    return {
        "index": index,
        "label": result.labels[probs.index(max(probs))],
        "probs": probs,
        "num_classes": len(probs),
        **({"logits": list(result.values)} if logits else {}),
    }

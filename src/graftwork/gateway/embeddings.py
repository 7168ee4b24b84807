"""POST /v1/embeddings: texts as vectors, by the base or by any adapter."""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from array import array
from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from graftwork.engine.pooled import vector
from graftwork.engine.request import Pooled
from graftwork.errors import InvalidRequest
from graftwork.gateway.choosing import Chosen, choose_for
from graftwork.gateway.disconnect import unless_gone
from graftwork.gateway.openapi import inference
from graftwork.gateway.poolings import pooling_requests, usage
from graftwork.gateway.request_body import read_json
from graftwork.gateway.route_defaults import with_companions
from graftwork.gateway.services import services_of
from graftwork.protocol.answers import EmbeddingAnswer
from graftwork.protocol.pooling import EmbeddingRequest

router = APIRouter(prefix="/v1", tags=["inference"], default_response_class=Response)


@router.post("/embeddings", openapi_extra=inference(EmbeddingAnswer, body=EmbeddingRequest))
async def embeddings(request: Request) -> Response:
    """One vector for each input, in order."""
    services = services_of(request)
    body = await read_json(request, services.settings.max_body_bytes, EmbeddingRequest)
    chosen = await choose_for(request, services, body)
    body = with_companions(body, chosen.signature.decision)
    _check_dimensions(body.dimensions, chosen.engine.outline.hidden_size)
    pooling = body.pooling or "mean"
    requests = pooling_requests(chosen.signature.request_id, body, pooling, chosen.adapter, chosen.caller)
    running = services.poolings.run(chosen.engine, requests, chosen.model, chosen.draft)
    results = await unless_gone(request.receive, running)
    content = await asyncio.to_thread(_written, results, body, chosen)  # millions of digits, perhaps
    return Response(content, headers=chosen.signature.headers(), media_type="application/json")


def _check_dimensions(asked: int | None, hidden_size: int) -> None:
    if asked is not None and asked != hidden_size:
        raise InvalidRequest(
            f"dimensions is {asked}, but this base's vectors have {hidden_size} numbers, and it was not trained for "
            f"shorter ones. Leave it out, or give {hidden_size}.",
            field="dimensions",
        )


def _written(results: Sequence[Pooled], body: EmbeddingRequest, chosen: Chosen) -> bytes:
    normalize = body.normalize is not False
    vectors = [vector(one.values, normalize=normalize) for one in results]
    write = _base64 if body.encoding_format == "base64" else array.tolist
    answer = {
        "object": "list",
        "data": [
            {"object": "embedding", "index": index, "embedding": write(made)} for index, made in enumerate(vectors)
        ],
        "model": chosen.model,
        "usage": usage(results),
        "graftwork": chosen.signature.to_json(),
    }
    return json.dumps(answer).encode()


def _base64(numbers: array[float]) -> Any:
    """As OpenAI has it: the bytes of little-endian float32."""
    if sys.byteorder == "big":
        numbers = array("f", numbers)
        numbers.byteswap()
    return base64.b64encode(numbers.tobytes()).decode()

"""Describes the bodies that the doors read themselves, for /openapi.json."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from pydantic.json_schema import models_json_schema

from graftwork.protocol.body import Body
from graftwork.protocol.chat import ChatRequest
from graftwork.protocol.completions import CompletionRequest
from graftwork.protocol.pooling import ClassifyRequest, EmbeddingRequest
from graftwork.protocol.registry import AliasBody, PromoteBody, PushBody, RollbackBody

BODIES: tuple[type[Body], ...] = (
    ChatRequest,
    CompletionRequest,
    EmbeddingRequest,
    ClassifyRequest,
    PushBody,
    PromoteBody,
    RollbackBody,
    AliasBody,
)
_PLACE = "#/components/schemas/{model}"


def body_of(body: type[Body]) -> dict[str, Any]:
    """`openapi_extra` of a door that takes `body`."""
    reference = {"$ref": _PLACE.format(model=body.__name__)}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": reference}}}}


def describe_bodies(app: FastAPI) -> None:
    """Add the schemas of all bodies to what `app` tells of itself; made when first asked for."""
    without = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            described = without()
            _, made = models_json_schema([(body, "validation") for body in BODIES], ref_template=_PLACE)
            described.setdefault("components", {}).setdefault("schemas", {}).update(made.get("$defs", {}))
            app.openapi_schema = described
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]

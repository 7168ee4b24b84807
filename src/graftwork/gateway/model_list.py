"""GET /v1/models: the base, every adapter and every route, in OpenAI's shape; the base is the parent of adapters."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from graftwork.errors import UnknownModel
from graftwork.gateway.circumstances import route_of
from graftwork.gateway.openapi import inference
from graftwork.gateway.services import Services, services_of, tenant_of
from graftwork.protocol.answers import ModelInfo, ModelList
from graftwork.registry.versions import Version
from graftwork.traffic.choice import choose
from graftwork.traffic.decision import Asked
from graftwork.traffic.routes.route import Route
from graftwork.traffic.routes.table import RouteTable
from graftwork.traffic.servable import require_allowed

router = APIRouter(prefix="/v1/models", tags=["inference"], default_response_class=Response)

OWNER = "graftwork"
#: The base is as old as the server's process for all that OpenAI's field is worth.
_NO_DATE = 0


@router.get("", openapi_extra=inference(ModelList, errors=()))
async def list_models(request: Request) -> Response:
    """Everything that may be called: the base, each route, and each adapter by its bare name unless the policy forbids
    it or a route has that name. At a route's own door, the route."""
    services, tenant = services_of(request), tenant_of(request)
    if (door := route_of(request)) is not None:
        return JSONResponse({"object": "list", "data": [_model(request, door)]})
    snapshot = services.snapshots.current()
    routes = snapshot.part(RouteTable).of(tenant)
    found = [
        choose(Asked(model=name), tenant=tenant, base=services.base, versions=snapshot)
        for name in (*snapshot.names(tenant), *snapshot.granted(tenant))
        if name != services.base and name not in routes
    ]
    adapters = [_adapter(one.route, version) for one in found for version in one.versions if not version.forbidden]
    listed = sorted([*adapters, *map(_route, routes.values())], key=lambda one: str(one["id"]))
    return JSONResponse({"object": "list", "data": [_base(services), *listed]})


@router.get("/{model:path}", openapi_extra=inference(ModelInfo, errors=(403, 404)))
async def show_model(request: Request, model: str) -> Response:
    """One model by any reference; 404 for what is not there, 403 for what the policy forbids to serve."""
    if route_of(request) not in (None, model):
        raise UnknownModel(model[:200])
    return JSONResponse(_model(request, model))


def _model(request: Request, name: str) -> dict[str, Any]:
    services, tenant = services_of(request), tenant_of(request)
    snapshot = services.snapshots.current()
    if (route := snapshot.part(RouteTable).find(tenant, name)) is not None:
        return _route(route)
    found = choose(Asked(model=name), tenant=tenant, base=services.base, versions=snapshot)
    if found.version is None:
        return _base(services)
    require_allowed(found.version)
    return _adapter(name, found.version)


def _route(route: Route) -> dict[str, Any]:
    return {
        "id": route.name,
        "object": "model",
        "created": int(datetime.fromisoformat(route.revision.created_at).timestamp()),
        "owned_by": OWNER,
        "root": route.name,
        "parent": None,
        "graftwork": {"route": route.name, "revision": route.revision.number},
    }


def _base(services: Services) -> dict[str, Any]:
    return {
        "id": services.base,
        "object": "model",
        "created": _NO_DATE,
        "owned_by": OWNER,
        "root": services.base,
        "parent": None,
    }


def _adapter(name: str, version: Version) -> dict[str, Any]:
    return {
        "id": name,
        "object": "model",
        "created": int(datetime.fromisoformat(version.created_at).timestamp()),
        "owned_by": OWNER,
        "root": version.label,
        "parent": version.base,
        "graftwork": {"version": version.semver, "digest": version.digest, "aliases": list(version.aliases)},
    }

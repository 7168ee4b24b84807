"""GET /v1/models: the base and every adapter, in OpenAI's shape; adapters name the base as their parent."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from graftwork.gateway.openapi import inference
from graftwork.gateway.services import Services, services_of, tenant_of
from graftwork.protocol.answers import ModelInfo, ModelList
from graftwork.registry.versions import Version
from graftwork.traffic.choice import Asked, choose, require_allowed

router = APIRouter(prefix="/v1/models", tags=["inference"], default_response_class=Response)

OWNER = "graftwork"
#: The base is as old as the server's process for all that OpenAI's field is worth.
_NO_DATE = 0


@router.get("", openapi_extra=inference(ModelList, errors=()))
async def list_models(request: Request) -> Response:
    """Everything that may be called: the base, and each adapter by its bare name unless the policy forbids it."""
    services, tenant = services_of(request), tenant_of(request)
    snapshot = services.snapshots.current()
    found = [
        choose(Asked(model=name), tenant=tenant, base=services.base, versions=snapshot)
        for name in snapshot.names(tenant)
        if name != services.base
    ]
    adapters = [_adapter(one.route, version) for one in found for version in one.versions if not version.forbidden]
    return JSONResponse({"object": "list", "data": [_base(services), *adapters]})


@router.get("/{model:path}", openapi_extra=inference(ModelInfo, errors=(403, 404)))
async def show_model(request: Request, model: str) -> Response:
    """One model by any reference; 404 for what is not there, 403 for what the policy forbids to serve."""
    services = services_of(request)
    asked = Asked(model=model)
    found = choose(asked, tenant=tenant_of(request), base=services.base, versions=services.snapshots.current())
    if found.version is None:
        return JSONResponse(_base(services))
    require_allowed(found.version)
    return JSONResponse(_adapter(model, found.version))


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

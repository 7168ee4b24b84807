"""DOORS: which right each door asks for; a door without a line opens to nobody."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from starlette.requests import Request

from graftwork.access.access import Access
from graftwork.access.grants import Verb
from graftwork.access.principal import Principal
from graftwork.access.roles import Right
from graftwork.errors import Forbidden, InvalidRequest, NotFound
from graftwork.gateway.services import principal_of, services_of
from graftwork.registry.reference import parse_reference

#: Method and path of a door as its own file writes it, so the same wherever it is hung up. None: whoever comes.
Door = tuple[str, str]
_VERSION = "/adapters/{name}/versions/{version}"

DOORS: Final[Mapping[Door, Right | None]] = {
    ("GET", "/health"): None,
    ("GET", "/ready"): None,
    ("GET", "/metrics"): Right.OPERATE,
    ("GET", "/api/v1/base"): Right.READ,
    ("POST", "/api/v1/base/verify"): Right.OPERATE,
    ("GET", "/api/v1/engine"): Right.OPERATE,
    # Inference
    ("POST", "/v1/chat/completions"): Right.CALL,
    ("POST", "/v1/completions"): Right.CALL,
    ("POST", "/v1/embeddings"): Right.CALL,
    ("POST", "/v1/classify"): Right.CALL,
    ("POST", "/v1/tasks"): Right.CALL,
    ("POST", "/v1/feedback"): Right.CALL,
    ("GET", "/v1/models"): Right.CALL,
    ("GET", "/v1/models/{model:path}"): Right.CALL,
    # Files
    ("POST", "/api/v1/blobs/missing"): Right.DEPLOY,
    ("HEAD", "/api/v1/blobs/{digest}/upload"): Right.DEPLOY,
    ("PATCH", "/api/v1/blobs/{digest}/upload"): Right.DEPLOY,
    ("DELETE", "/api/v1/blobs/{digest}/upload"): Right.DEPLOY,
    ("PUT", "/api/v1/blobs/{digest}"): Right.DEPLOY,
    ("HEAD", "/api/v1/blobs/{digest}"): Right.READ,
    ("GET", "/api/v1/blobs/{digest}"): Right.READ,
    ("POST", "/api/v1/blobs/{digest}/verify"): Right.READ,
    # Versions
    ("GET", "/adapters"): Right.READ,
    ("GET", "/adapters/{name}"): Right.READ,
    ("PATCH", "/adapters/{name}"): Right.DEPLOY,
    ("DELETE", "/adapters/{name}"): Right.ADMINISTER,
    ("GET", "/adapters/{name}/versions"): Right.READ,
    ("POST", "/adapters/{name}/versions"): Right.DEPLOY,
    ("GET", _VERSION): Right.READ,
    ("DELETE", _VERSION): Right.ADMINISTER,
    ("GET", "/versions"): Right.READ,
    ("POST", "/adapters/{name}/promote"): Right.DEPLOY,
    ("POST", "/adapters/{name}/rollback"): Right.DEPLOY,
    ("GET", "/adapters/{name}/aliases"): Right.READ,
    ("GET", "/adapters/{name}/aliases/{alias}"): Right.READ,
    ("PUT", "/adapters/{name}/aliases/{alias}"): Right.DEPLOY,
    ("DELETE", "/adapters/{name}/aliases/{alias}"): Right.DEPLOY,
    ("GET", "/adapters/{name}/history"): Right.READ,
    ("GET", "/adapters/{name}/tags"): Right.READ,
    ("PUT", "/adapters/{name}/tags/{key}"): Right.DEPLOY,
    ("DELETE", "/adapters/{name}/tags/{key}"): Right.DEPLOY,
    ("GET", "/search"): Right.READ,
    # What may become of them
    ("PUT", f"{_VERSION}/stage"): Right.DEPLOY,
    ("GET", f"{_VERSION}/approvals"): Right.READ,
    ("POST", f"{_VERSION}/approvals"): Right.APPROVE,
    ("PUT", f"{_VERSION}/deprecation"): Right.DEPLOY,
    ("DELETE", f"{_VERSION}/deprecation"): Right.DEPLOY,
    ("GET", "/policy"): Right.READ,
    ("PUT", "/policy"): Right.ADMINISTER,
    ("DELETE", "/policy"): Right.ADMINISTER,
    ("GET", "/adapters/{name}/policy"): Right.READ,
    ("PUT", "/adapters/{name}/policy"): Right.ADMINISTER,
    ("DELETE", "/adapters/{name}/policy"): Right.ADMINISTER,
    ("GET", "/holds"): Right.READ,
    ("POST", "/holds"): Right.ADMINISTER,
    ("POST", "/holds/release"): Right.ADMINISTER,
    ("GET", "/retention"): Right.READ,
    ("PUT", "/retention"): Right.ADMINISTER,
    ("DELETE", "/retention"): Right.ADMINISTER,
    ("POST", "/gc"): Right.ADMINISTER,
    # What is known of them
    ("POST", f"{_VERSION}/evaluations"): Right.DEPLOY,
    ("GET", f"{_VERSION}/evaluations"): Right.READ,
    ("GET", f"{_VERSION}/evaluations/{{number}}"): Right.READ,
    ("GET", "/compare"): Right.READ,
    ("GET", "/adapters/{name}/trend"): Right.READ,
    ("POST", f"{_VERSION}/documents"): Right.DEPLOY,
    ("GET", f"{_VERSION}/documents"): Right.READ,
    ("GET", f"{_VERSION}/documents/{{document}}"): Right.READ,
    ("GET", f"{_VERSION}/documents/{{document}}/content"): Right.READ,
    ("GET", f"{_VERSION}/card"): Right.READ,
    ("GET", f"{_VERSION}/bom"): Right.READ,
    ("POST", f"{_VERSION}/signatures"): Right.DEPLOY,
    ("GET", f"{_VERSION}/signatures"): Right.READ,
    ("GET", f"{_VERSION}/signatures/{{number}}"): Right.READ,
    ("GET", f"{_VERSION}/signatures/{{number}}/bundle"): Right.READ,
    ("GET", "/lineage"): Right.READ,
    ("GET", "/lineage/impact"): Right.READ,
    ("POST", "/lineage/edges"): Right.DEPLOY,
    ("GET", "/bases"): Right.READ,
    ("GET", "/bases/{name}"): Right.READ,
    ("POST", "/bases"): Right.DEPLOY,
    ("GET", "/tasks"): Right.READ,
    ("GET", "/tasks/{name}"): Right.READ,
    ("PUT", "/tasks/{name}"): Right.DEPLOY,
    ("DELETE", "/tasks/{name}"): Right.DEPLOY,
    ("GET", "/tasks/{name}/revisions"): Right.READ,
    ("POST", "/tasks/{name}/rollback"): Right.DEPLOY,
    ("GET", "/routes"): Right.READ,
    ("GET", "/routes/{name}"): Right.READ,
    ("PUT", "/routes/{name}"): Right.DEPLOY,
    ("DELETE", "/routes/{name}"): Right.DEPLOY,
    ("GET", "/routes/{name}/revisions"): Right.READ,
    ("POST", "/routes/{name}/rollback"): Right.DEPLOY,
    ("POST", "/routes/{name}/explain"): Right.READ,
    ("GET", "/promotions"): Right.READ,
    ("GET", "/promotions/{name}"): Right.READ,
    ("PUT", "/promotions/{name}"): Right.DEPLOY,
    ("DELETE", "/promotions/{name}"): Right.DEPLOY,
    ("GET", "/promotions/{name}/revisions"): Right.READ,
    ("POST", "/promotions/{name}/rollback"): Right.DEPLOY,
    ("GET", "/promotions/{name}/candidates"): Right.READ,
    ("GET", "/rollouts"): Right.READ,
    ("POST", "/rollouts"): Right.DEPLOY,
    ("GET", "/rollouts/{route}"): Right.READ,
    ("GET", "/rollouts/{route}/steps"): Right.READ,
    ("POST", "/rollouts/{route}/pause"): Right.DEPLOY,
    ("POST", "/rollouts/{route}/resume"): Right.DEPLOY,
    ("POST", "/rollouts/{route}/promote"): Right.DEPLOY,
    ("POST", "/rollouts/{route}/abort"): Right.DEPLOY,
    ("POST", "/rollouts/{route}/retry"): Right.DEPLOY,
    # Where events are sent: a URL may be a secret, and names a place that the server connects to.
    ("GET", "/webhooks"): Right.ADMINISTER,
    ("GET", "/webhooks/{name}"): Right.ADMINISTER,
    ("PUT", "/webhooks/{name}"): Right.ADMINISTER,
    ("DELETE", "/webhooks/{name}"): Right.ADMINISTER,
    ("POST", "/webhooks/{name}/rotate"): Right.ADMINISTER,
    ("POST", "/webhooks/{name}/test"): Right.DEPLOY,
    ("GET", "/webhooks/{name}/deliveries"): Right.READ,
    ("POST", "/webhooks/{name}/retry"): Right.DEPLOY,
    ("POST", "/analysis/check"): Right.READ,
    ("GET", "/analysis/templates"): Right.READ,
    ("GET", "/analysis/templates/{name}"): Right.READ,
    ("PUT", "/analysis/templates/{name}"): Right.DEPLOY,
    ("DELETE", "/analysis/templates/{name}"): Right.DEPLOY,
    ("GET", "/analysis/templates/{name}/revisions"): Right.READ,
    ("POST", "/analysis/templates/{name}/rollback"): Right.DEPLOY,
    # Beside these, what each single change needs.
    ("POST", "/plan"): Right.DEPLOY,
    ("POST", "/apply"): Right.DEPLOY,
    ("GET", "/export"): Right.READ,
    ("GET", "/schemas"): Right.READ,
    ("GET", "/schemas/{kind}"): Right.READ,
    ("GET", "/predictions"): Right.READ,
    ("GET", "/predictions/{request_id}"): Right.READ,
    ("DELETE", "/predictions"): Right.ADMINISTER,
    ("GET", "/shadows"): Right.READ,
    ("GET", "/shadows/report"): Right.READ,
    ("GET", "/recording"): Right.READ,
    ("PUT", "/recording"): Right.ADMINISTER,
    ("GET", "/usage"): Right.READ,
    # Memory
    ("GET", "/residency"): Right.READ,
    ("POST", "/adapters/{name}/load"): Right.DEPLOY,
    ("POST", "/adapters/{name}/pin"): Right.DEPLOY,
    ("POST", "/adapters/{name}/unpin"): Right.DEPLOY,
    ("POST", "/adapters/{name}/unload"): Right.DEPLOY,
    # The log
    ("GET", "/events"): Right.READ,
    ("GET", "/audit/head"): Right.READ,
    ("GET", "/audit/chain"): Right.ADMINISTER,
    ("POST", "/audit/verify"): Right.ADMINISTER,
    # Who
    ("GET", "/api/v1/whoami"): None,
    ("GET", "/api/v1/tenants"): Right.READ,
    ("POST", "/api/v1/tenants"): Right.OPERATE,
    ("GET", "/api/v1/tenants/{tenant}"): Right.READ,
    ("PATCH", "/api/v1/tenants/{tenant}"): Right.OPERATE,
    ("GET", "/users"): Right.READ,
    ("PUT", "/users/{name}"): Right.ADMINISTER,
    ("DELETE", "/users/{name}"): Right.ADMINISTER,
    ("GET", "/keys"): Right.ADMINISTER,
    ("POST", "/keys"): Right.ADMINISTER,
    ("POST", "/keys/{key}/rotate"): Right.ADMINISTER,
    ("PATCH", "/keys/{key}"): Right.ADMINISTER,
    ("DELETE", "/keys/{key}"): Right.ADMINISTER,
    ("GET", "/grants"): Right.READ,
    ("POST", "/grants"): Right.ADMINISTER,
    ("DELETE", "/grants/{grant}"): Right.ADMINISTER,
}

#: The doors that a grant opens to another tenant, each about the one adapter that it names.
GRANTED: Final[Mapping[Door, Verb]] = {
    ("GET", "/adapters/{name}"): "see",
    ("GET", "/adapters/{name}/versions"): "see",
    ("GET", _VERSION): "see",
    ("GET", "/versions"): "see",
    ("GET", "/adapters/{name}/aliases"): "see",
    ("GET", "/adapters/{name}/aliases/{alias}"): "see",
    ("GET", "/adapters/{name}/history"): "see",
    ("GET", f"{_VERSION}/card"): "see",
    ("POST", "/adapters/{name}/promote"): "manage",
    ("POST", "/adapters/{name}/rollback"): "manage",
    ("PUT", "/adapters/{name}/aliases/{alias}"): "manage",
    ("DELETE", "/adapters/{name}/aliases/{alias}"): "manage",
    ("PUT", f"{_VERSION}/stage"): "manage",
    ("PUT", f"{_VERSION}/deprecation"): "manage",
    ("DELETE", f"{_VERSION}/deprecation"): "manage",
}


def door_of(request: Request) -> Door:
    """The door that was found for a request."""
    return request.method, request.scope["route"].path


async def check_door(request: Request) -> None:
    """Raises Forbidden where who asks has not the right that the door asks for, whatever lies behind it."""
    door = door_of(request)
    if door in DOORS and ((right := DOORS[door]) is None or right in principal_of(request).rights):
        return
    raise Forbidden(
        f"Your key may not do this: it needs the right to {DOORS[door]}." if door in DOORS else "Nobody may do this."
    )


async def enter_tenant(request: Request, tenant: str) -> None:
    """Let who asks act in the tenant that the path names, if they may.

    An administrator of the server may in all that there are, and others where a grant says so. Raises NotFound else:
    a tenant that is there and one that is not look alike, and so do their adapters.
    """
    asking = principal_of(request)
    if tenant == asking.tenant:
        return
    access = services_of(request).snapshots.current().part(Access)
    may = tenant in access.tenants if Right.OPERATE in asking.rights else _is_granted(request, access, asking, tenant)
    if not may:
        raise NotFound(f"There is no tenant {tenant[:200]}.")
    request.state.principal = replace(asking, tenant=tenant, name=f"{asking.tenant}/{asking.name}")


def _is_granted(request: Request, access: Access, asking: Principal, owner: str) -> bool:
    verb, name = GRANTED.get(door_of(request)), request.path_params.get("name")
    if verb is not None and name is None:
        try:
            name = parse_reference(request.query_params.get("reference", "")).name
        except InvalidRequest:
            return False
    return verb is not None and name is not None and access.may(asking.tenant, verb, owner, name)

"""choosing: from what a request says to the one that answers it; the same at every inference door."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.requests import Request

from graftwork.engine.request import AdapterHandle, Caller
from graftwork.gateway.engine_slot import GenerationEngine
from graftwork.gateway.services import Services, principal_of, tenant_of
from graftwork.gateway.signature import Signature
from graftwork.protocol.adapters import AdapterFields
from graftwork.protocol.not_yet import refuse_not_yet_headers
from graftwork.traffic.choice import Asked, choose, require_servable
from graftwork.traffic.handle import handle_of
from graftwork.traffic.rollouts.live import LiveRollouts


@dataclass(frozen=True)
class Chosen:
    """The engine, what it is to answer with (None: the base itself), for whom, and how the answer is signed."""

    engine: GenerationEngine
    adapter: AdapterHandle | None
    caller: Caller
    signature: Signature

    @property
    def model(self) -> str:
        return self.signature.model


def choose_for(request: Request, services: Services, body: AdapterFields) -> Chosen:
    """Who answers `request`.

    Raises:
        UnknownModel, InvalidRequest, Forbidden, Refused: as `choose` and `require_servable`.
        Unavailable: there is no engine, or not yet.
    """
    refuse_not_yet_headers(request.headers)
    who, tenant, snapshot = principal_of(request), tenant_of(request), services.snapshots.current()
    key = who.user or who.key or request.state.request_id
    adapters = tuple((one.ref, one.scale) for one in body.adapters or ())
    asked = Asked(body.model, body.adapter_id, request.headers.get("x-adapter-id"), adapters, key)
    live = snapshot.part(LiveRollouts)
    decision = choose(asked, tenant=tenant, base=services.base, versions=snapshot, rollouts=live)
    engine = services.engine.get()
    base_digest = engine.outline.weights_digest
    require_servable(decision, base=services.base, base_digest=base_digest)
    signature = Signature(request.state.request_id, decision, base_digest)
    caller = Caller(tenant, priority=body.priority or 0, salt=body.cache_salt or "")
    return Chosen(engine, handle_of(decision, tenant), caller, signature)

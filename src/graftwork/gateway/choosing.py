"""choosing: from what a request says to the one that answers it; the same at every inference door."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from starlette.requests import Request

from graftwork.access.access import Access
from graftwork.access.tenants import Tenant
from graftwork.engine.request import AdapterHandle, Caller
from graftwork.gateway.circumstances import circumstances_of, route_of
from graftwork.gateway.draft import Draft
from graftwork.gateway.engine_slot import GenerationEngine
from graftwork.gateway.services import Services, principal_of, tenant_of
from graftwork.gateway.signature import Signature
from graftwork.gateway.turns import decided, name_of
from graftwork.protocol.adapters import AdapterFields
from graftwork.traffic.choice import choose
from graftwork.traffic.decision import Asked
from graftwork.traffic.handle import handle_of
from graftwork.traffic.rollouts.ended import EndedRollouts
from graftwork.traffic.rollouts.live import LiveRollouts
from graftwork.traffic.routes.table import RouteTable
from graftwork.traffic.servable import require_servable


@dataclass(frozen=True)
class Chosen:
    """The engine, what it is to answer with (None: the base itself), for whom, and how the answer is signed.

    The draft is of the record of all this.
    """

    engine: GenerationEngine
    adapter: AdapterHandle | None
    caller: Caller
    signature: Signature
    draft: Draft

    @property
    def model(self) -> str:
        return self.signature.model


async def choose_for(request: Request, services: Services, body: AdapterFields) -> Chosen:
    """Who answers `request`.

    Raises:
        UnknownModel, NotFound, RouteRefused, InvalidRequest, Forbidden, Refused: as `choose` and `require_servable`.
        Unavailable: there is no engine, or not yet.
    """
    who, tenant, snapshot = principal_of(request), tenant_of(request), services.snapshots.current()
    access = snapshot.part(Access)
    adapters = tuple((one.ref, one.scale) for one in body.adapters or ())
    asked = Asked(
        body.model,
        body.adapter_id,
        request.headers.get("x-adapter-id"),
        adapters,
        route=route_of(request),
        default=access.default_route(who),
        seen=circumstances_of(request, access, body),
    )
    draft = services.books.recorder.open(request, who, asked, snapshot, user=body.user_id)
    decide = partial(
        choose,
        tenant=tenant,
        base=services.base,
        versions=snapshot,
        routes=snapshot.part(RouteTable),
        rollouts=snapshot.part(LiveRollouts),
        endings=snapshot.part(EndedRollouts),
    )
    session = name_of(who, asked.seen.session)
    decision = await decided(services.sessions, session, asked, decide)
    engine = services.engine.get()
    base_digest = engine.outline.weights_digest
    draft.chose(decision, base_digest)
    require_servable(decision.versions, base=services.base, base_digest=base_digest)
    if session is not None and decision.turn is not None:
        services.sessions.take(session, decision.turn, draft.kept_user)
    debug = request.headers.get("x-graftwork-debug") is not None
    signature = Signature(request.state.request_id, decision, base_digest, debug=debug)
    caller = caller_of(access.tenant(tenant), body)
    return Chosen(engine, handle_of(decision, tenant), caller, signature, draft)


def caller_of(tenant: Tenant, body: AdapterFields) -> Caller:
    """Who a request is from, in the engine's words: cached prompts lie under the tenant's secret, and what it adds."""
    salt = f"{tenant.salt}:{body.cache_salt}" if tenant.salt and body.cache_salt else tenant.salt or body.cache_salt
    return Caller(tenant.name, tenant.weight, body.priority or 0, salt or "")

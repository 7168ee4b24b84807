"""handle_of: a decision in the engine's words."""

from __future__ import annotations

from graftwork.engine.request import AdapterHandle
from graftwork.traffic.decision import Decision


def handle_of(decision: Decision, tenant: str) -> AdapterHandle | None:
    """What the engine is to answer a tenant with; None is the base itself."""
    if decision.digest is None:
        return None
    parts = decision.composition.parts if decision.composition else ()
    return AdapterHandle(
        digest=decision.digest,
        tenant=tenant if decision.version is None else decision.version.tenant,  # whose files they are
        label=decision.model,
        parts=tuple((AdapterHandle(version.digest, version.tenant, version.label), scale) for version, scale in parts),
    )

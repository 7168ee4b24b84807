"""Policies: what a tenant, or an adapter in its place, demands of versions."""

from __future__ import annotations

from collections.abc import Mapping

from graftwork.access.names import check_name
from graftwork.access.roles import Right
from graftwork.db.schema import policies
from graftwork.declared.desk import Desk
from graftwork.declared.resource_kind import ResourceKind, Spec
from graftwork.protocol.lifecycle import PolicyBody
from graftwork.registry.owners import POLICY
from graftwork.registry.rules.policies import all_policies
from graftwork.registry.rules.policy import Policy


class PolicyKind(ResourceKind[PolicyBody]):
    """The tenant's own has no name, one of an adapter its name."""

    word, body, right = POLICY, PolicyBody, Right.ADMINISTER

    def name(self, document: PolicyBody) -> str:
        return document.metadata.name or ""

    def check(self, document: PolicyBody) -> None:
        if document.metadata.name is not None:
            check_name(document.metadata.name, what="adapter")

    def spec(self, document: PolicyBody) -> Spec:
        return _policy(document).to_json()

    def live(self, desk: Desk) -> Mapping[str, Spec]:
        found = all_policies(desk.tx, policies.c.tenant == desk.tenant)
        return {adapter: policy.to_json() for (_, adapter), policy in sorted(found.items())}

    def set(self, desk: Desk, document: PolicyBody) -> str | None:
        self._put(desk, self.name(document), _policy(document))
        return None

    def remove(self, desk: Desk, name: str) -> None:
        self._put(desk, name, None)

    def _put(self, desk: Desk, name: str, policy: Policy | None) -> None:
        desk.services.lifecycle.set_policy(
            desk.tenant, policy, adapter=name or None, actor=desk.actor, reason=desk.reason
        )


def _policy(document: PolicyBody) -> Policy:
    return Policy.from_json(document.spec.model_dump(by_alias=True))

"""Grants: what other tenants may do with adapters of this one."""

from __future__ import annotations

from collections.abc import Mapping

from graftwork.access.access import Access, read_access
from graftwork.access.grants import VERBS, Grant, check_pattern
from graftwork.access.roles import Right
from graftwork.access.tenants import check_tenant
from graftwork.declared.desk import Desk
from graftwork.declared.resource_kind import ResourceKind, Spec
from graftwork.protocol.declared import GrantResource


class GrantKind(ResourceKind[GrantResource]):
    """Called by whom and what it is of, `acme/tone-*`: there is one at most."""

    word, body, right = "Grant", GrantResource, Right.ADMINISTER

    def name(self, document: GrantResource) -> str:
        return f"{document.spec.tenant}/{document.spec.pattern}"

    def check(self, document: GrantResource) -> None:
        check_tenant(document.spec.tenant)
        check_pattern(document.spec.pattern)

    def spec(self, document: GrantResource) -> Spec:
        given = document.spec
        return {
            "tenant": given.tenant,
            "pattern": given.pattern,
            "verbs": [verb for verb in VERBS if verb in given.verbs],
        }

    def live(self, desk: Desk) -> Mapping[str, Spec]:
        specs = ({"tenant": one.grantee, "pattern": one.pattern, "verbs": list(one.verbs)} for one in _given_by(desk))
        return {f"{one['tenant']}/{one['pattern']}": one for one in specs}

    def set(self, desk: Desk, document: GrantResource) -> str | None:
        """With other verbs it is another grant, in place of the one that there is."""
        spec = document.spec
        if any(f"{one.grantee}/{one.pattern}" == self.name(document) for one in _given_by(desk)):
            self.remove(desk, self.name(document))
        desk.services.grants.create(desk.tenant, spec.tenant, spec.pattern, tuple(spec.verbs), actor=desk.actor)
        return None

    def remove(self, desk: Desk, name: str) -> None:
        for one in _given_by(desk):
            if f"{one.grantee}/{one.pattern}" == name:
                desk.services.grants.remove(desk.tenant, one.id, actor=desk.actor)

    def metadata(self, name: str) -> dict[str, str]:
        return {}


def _given_by(desk: Desk) -> list[Grant]:
    access: Access = read_access(desk.tx, None, None)
    return sorted(access.given_by(desk.tenant), key=lambda one: (one.grantee, one.pattern))

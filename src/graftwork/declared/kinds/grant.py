"""Grants: what other tenants may do with adapters of this one."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import select

from graftwork.access.grants import VERBS, Grant, check_pattern
from graftwork.access.roles import Right
from graftwork.access.tenants import check_tenant
from graftwork.db.schema import grants
from graftwork.declared.desk import Desk
from graftwork.declared.resource_kind import ResourceKind, Spec
from graftwork.protocol.declared import GrantResource
from graftwork.registry.owners import GRANT, grant_name


class GrantKind(ResourceKind[GrantResource]):
    """Called by whom and what it is of, `acme/tone-*`: there is one at most."""

    word, body, right = GRANT, GrantResource, Right.ADMINISTER

    def name(self, document: GrantResource) -> str:
        return grant_name(document.spec.tenant, document.spec.pattern)

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
        rows = desk.tx.execute(select(grants).where(grants.c.tenant == desk.tenant))
        return {
            grant_name(one.grantee, one.pattern): {
                "tenant": one.grantee,
                "pattern": one.pattern,
                "verbs": list(one.verbs),
            }
            for one in map(Grant.from_row, rows)
        }

    def set(self, desk: Desk, document: GrantResource) -> str | None:
        """With other verbs it is another grant, in place of the one that there is."""
        spec = document.spec
        self.remove(desk, self.name(document))
        desk.services.grants.create(desk.tenant, spec.tenant, spec.pattern, tuple(spec.verbs), actor=desk.actor)
        return None

    def remove(self, desk: Desk, name: str) -> None:
        grantee, _, pattern = name.partition("/")
        own = grants.c.tenant == desk.tenant, grants.c.grantee == grantee, grants.c.pattern == pattern
        for number in desk.tx.execute(select(grants.c.id).where(*own)).scalars().all():
            desk.services.grants.remove(desk.tenant, number, actor=desk.actor)

    def metadata(self, name: str) -> dict[str, str]:
        return {}

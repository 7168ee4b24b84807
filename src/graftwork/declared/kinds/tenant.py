"""Tenants: what is set for those that there are, and those that there shall be."""

from __future__ import annotations

from collections.abc import Mapping

from graftwork.access.access import Access, read_access
from graftwork.access.default_route import check_default_route
from graftwork.access.quotas import Quotas
from graftwork.access.roles import Right
from graftwork.access.tenants import LOCAL, Tenant, check_tenant
from graftwork.declared.desk import Desk
from graftwork.declared.resource_kind import ResourceKind, Spec, spec_of
from graftwork.protocol.declared import TenantResource, TenantSpec


class TenantKind(ResourceKind[TenantResource]):
    """Of the server's own administrators; others see theirs. None is ever taken away."""

    word, body, right, removable = "Tenant", TenantResource, Right.OPERATE, False

    def name(self, document: TenantResource) -> str:
        return document.metadata.name

    def check(self, document: TenantResource) -> None:
        check_tenant(document.metadata.name)
        check_default_route(document.spec.default_route)

    def spec(self, document: TenantResource) -> Spec:
        return document.spec.model_dump(by_alias=True)

    def live(self, desk: Desk) -> Mapping[str, Spec]:
        everybodys = desk.tenant == LOCAL and Right.OPERATE in desk.rights
        access: Access = read_access(desk.tx, None, None)
        return {
            name: _spec(one)
            for name, one in sorted(access.tenants.items())
            if one.created_at is not None and (everybodys or name == desk.tenant)
        }

    def set(self, desk: Desk, document: TenantResource) -> str | None:
        name, spec = document.metadata.name, document.spec
        said, quotas = spec.model_dump(exclude={"quotas"}), spec.quotas.model_dump()
        if name in self.live(desk) or name == LOCAL:
            desk.services.tenants.change(name, {**said, "quotas": quotas}, actor=desk.actor)
        else:
            desk.services.tenants.create(Tenant(name, quotas=Quotas(**quotas), **said), actor=desk.actor)
        return None


def _spec(tenant: Tenant) -> Spec:
    told = tenant.to_json()
    said = {field: told[field] for field in ("display_name", "home_region", "weight", "quotas", "default_route")}
    return spec_of(TenantSpec, said)

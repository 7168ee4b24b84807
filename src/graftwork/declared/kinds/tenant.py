"""Tenants: what is set for those that there are, and those that there shall be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Select, select

from graftwork.access.default_route import check_default_route
from graftwork.access.quotas import Quotas
from graftwork.access.roles import Right
from graftwork.access.tenants import LOCAL, Tenant, check_tenant
from graftwork.db.schema import tenants
from graftwork.declared.desk import Desk
from graftwork.declared.resource_kind import MODEL, Link, Links, ResourceKind, Spec, spec_of
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

    def links(self, document: TenantResource) -> Links:
        if document.spec.default_route:
            yield Link(MODEL, document.spec.default_route, "spec.defaultRoute", tenant=document.metadata.name)

    def live(self, desk: Desk) -> Mapping[str, Spec]:
        rows = desk.tx.execute(_seen(desk).order_by(tenants.c.tenant))
        return {row.tenant: _spec(Tenant.from_row(row)) for row in rows}

    def set(self, desk: Desk, document: TenantResource) -> str | None:
        name, spec = document.metadata.name, document.spec
        said, quotas = spec.model_dump(exclude={"quotas"}), spec.quotas.model_dump()
        there = desk.tx.execute(_seen(desk).where(tenants.c.tenant == name)).first() is not None
        if there or name == LOCAL:
            desk.services.tenants.change(name, {**said, "quotas": quotas}, actor=desk.actor)
        else:
            desk.services.tenants.create(Tenant(name, quotas=Quotas(**quotas), **said), actor=desk.actor)
        return None


def _seen(desk: Desk) -> Select[Any]:
    everybodys = desk.tenant == LOCAL and Right.OPERATE in desk.rights
    return select(tenants) if everybodys else select(tenants).where(tenants.c.tenant == desk.tenant)


def _spec(tenant: Tenant) -> Spec:
    told = tenant.to_json()
    said = {field: told[field] for field in ("display_name", "home_region", "weight", "quotas", "default_route")}
    return spec_of(TenantSpec, said)

"""unresolved: what documents name and what is not there, once they are applied."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import select

from graftwork.access.names import is_name
from graftwork.db.schema import tenants
from graftwork.declared.desk import Desk
from graftwork.declared.document import Declared
from graftwork.declared.kinds import kind_of
from graftwork.declared.resource_kind import MODEL, VERSION, Link, label_of
from graftwork.errors import GraftworkError
from graftwork.registry.reference import parse_reference
from graftwork.registry.resolving import resolve
from graftwork.traffic.routes.arms import USER
from graftwork.traffic.routes.routes import has_route


def unresolved(desk: Desk, documents: Iterable[Declared]) -> list[str]:
    """Each told once, and so is the tenant's default route, which pruning may have taken away. It is allowed, as it may
    come later; until then who asks for it is told so.
    """
    found = [(one.label, link) for one in documents for link in one.kind.links(one.body)]
    if default := _default_route(desk):
        found.append((label_of("Tenant", desk.tenant), Link(MODEL, default, "spec.defaultRoute")))
    links = {(link.kind, link.name, link.tenant): link for _, link in found}
    there = {word: kind_of(word).live(desk) for word in {word for word, _, _ in links} - {VERSION, MODEL}}
    missing = {
        key: link.name not in there[link.kind] if link.kind in there else not _answers(desk, link)
        for key, link in links.items()
    }
    told = (f"{label}: {_said(desk, one)} yet." for label, one in found if missing[one.kind, one.name, one.tenant])
    return list(dict.fromkeys(told))


def _default_route(desk: Desk) -> str | None:
    return desk.tx.execute(select(tenants.c.default_route).where(tenants.c.tenant == desk.tenant)).scalar()


def _answers(desk: Desk, link: Link) -> bool:
    """Whether something answers to a reference now, or by user may."""
    name, tenant = link.name, link.tenant or desk.tenant
    if USER in name or name == desk.base:
        return True
    try:
        reference = parse_reference(name)
        if reference.tenant not in (None, tenant):
            return True  # another's: whether it is there is not to be told
        if link.kind == MODEL and is_name(name) and has_route(desk.tx, tenant, name):
            return True
        resolve(desk.tx, tenant, reference)
    except GraftworkError:
        return False
    return True


def _said(desk: Desk, link: Link) -> str:
    if link.kind == MODEL:
        return f"{link.name} names no route and no version"
    if link.kind != VERSION:
        return f"there is no {label_of(link.kind, link.name)}"
    if is_name(link.name) and has_route(desk.tx, desk.tenant, link.name):
        return f"{link.name} is a route, which none leads to, and names no version"
    return f"{link.name} names no version"

"""unresolved: what documents name and what is not there, once they are applied."""

from __future__ import annotations

from collections.abc import Iterable

from graftwork.access.names import is_name
from graftwork.declared.desk import Desk
from graftwork.declared.document import Declared
from graftwork.declared.kinds import kind_of
from graftwork.declared.resource_kind import VERSION, Link, label_of
from graftwork.errors import GraftworkError
from graftwork.registry.reference import parse_reference
from graftwork.registry.resolving import resolve
from graftwork.traffic.routes.arms import USER
from graftwork.traffic.routes.routes import has_route


def unresolved(desk: Desk, documents: Iterable[Declared]) -> list[str]:
    """Each told once. It is allowed, as it may come later; until then who asks for it is told so."""
    found = {(one.label, link.kind, link.name): link for one in documents for link in one.kind.links(one.body)}
    words = {link.kind for link in found.values() if link.kind != VERSION}
    there = {(word, name) for word in words for name in kind_of(word).live(desk)}
    missing = {
        key: (link.kind, link.name) not in there if link.kind != VERSION else not _answers(desk, link.name)
        for key, link in {(link.kind, link.name): link for link in found.values()}.items()
    }
    return [f"{label}: {_said(link)} yet." for (label, *key), link in found.items() if missing[key[0], key[1]]]


def _answers(desk: Desk, name: str) -> bool:
    """Whether something answers to a reference now, or by user may."""
    if USER in name or name == desk.base:
        return True
    try:
        reference = parse_reference(name)
        if reference.tenant not in (None, desk.tenant):
            return True  # another's: whether it is there is not to be told
        if is_name(name) and has_route(desk.tx, desk.tenant, name):
            return True
        resolve(desk.tx, desk.tenant, reference)
    except GraftworkError:
        return False
    return True


def _said(link: Link) -> str:
    if link.kind == VERSION:
        return f"{link.name} names no version"
    return f"there is no {label_of(link.kind, link.name)}"

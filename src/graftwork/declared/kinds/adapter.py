"""Adapters: what is said of them beside their versions, and which versions their names mean."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from sqlalchemy import select

from graftwork.access.names import check_name
from graftwork.db.schema import adapters
from graftwork.declared.desk import Desk
from graftwork.declared.pages import all_pages
from graftwork.declared.resource_kind import ResourceKind, Spec
from graftwork.errors import InvalidRequest
from graftwork.protocol.declared import AdapterResource
from graftwork.registry.adapters import has_versions
from graftwork.registry.pointers import PREVIOUS, PRODUCTION
from graftwork.registry.reading import find, view_of
from graftwork.registry.reference import Digest, Reference, Semver, parse_reference
from graftwork.registry.tags import tags_of
from graftwork.registry.versions import Version
from graftwork.registry.view import AdapterView

_FOLLOW = {PRODUCTION, PREVIOUS}


class AdapterKind(ResourceKind[AdapterResource]):
    """Versions are pushed and never applied: a document names those that are there, by number or digest."""

    word, body, removable = "Adapter", AdapterResource, False

    def name(self, document: AdapterResource) -> str:
        return document.metadata.name

    def check(self, document: AdapterResource) -> None:
        name, spec = check_name(document.metadata.name, what="adapter"), document.spec
        for tag in spec.tags or ():
            _about(f"spec.tags.{tag}", tag, "tag")
        for alias, version in (spec.aliases or {}).items():
            if alias in _FOLLOW:
                raise InvalidRequest(
                    f"spec.aliases.{alias} follows promotions: name the version in spec.production.",
                    field=f"spec.aliases.{alias}",
                )
            _about(f"spec.aliases.{alias}", alias, "alias")
            _reference(name, version, f"spec.aliases.{alias}")
        if spec.production is not None:
            _reference(name, spec.production, "spec.production")

    def spec(self, document: AdapterResource) -> Spec:
        said = document.spec.model_dump(by_alias=True, exclude_none=True)
        return {name: dict(sorted(one.items())) if isinstance(one, dict) else one for name, one in said.items()}

    def live(self, desk: Desk) -> Mapping[str, Spec]:
        return {one.name: _spec(desk, one.name) for one in all_pages(desk.services.registry.list_adapters, desk.tenant)}

    def named(self, desk: Desk, names: Collection[str]) -> Mapping[str, Spec]:
        """Without a look at others: what an adapter is takes a look at all of its versions."""
        own = adapters.c.tenant == desk.tenant, adapters.c.name.in_(names), has_versions()
        return {name: _spec(desk, name) for name in desk.tx.execute(select(adapters.c.name).where(*own)).scalars()}

    def wanted(self, desk: Desk, document: AdapterResource, live: Spec | None) -> tuple[Spec, Spec | None, str | None]:
        """Of the live one only what the document speaks of; versions by their numbers, which are easier to compare."""
        view = view_of(desk.tx, desk.tenant, document.metadata.name)
        wanted = self.spec(document)
        if "aliases" in wanted:
            named = wanted["aliases"].items()
            wanted["aliases"] = {
                alias: _version(desk, view, version, f"spec.aliases.{alias}").semver for alias, version in named
            }
        if "production" in wanted:
            wanted["production"] = _version(desk, view, wanted["production"], "spec.production").semver
        seen = None if live is None else {field: live[field] for field in wanted if field in live}
        return wanted, seen, None

    def set(self, desk: Desk, document: AdapterResource) -> str | None:
        name, spec, tenant, actor = document.metadata.name, document.spec, desk.tenant, desk.actor
        desk.services.descriptions.set(
            tenant, name, display_name=spec.display_name, description=spec.description, actor=actor
        )
        if spec.tags is not None:
            for key in tags_of(desk.tx, tenant, [(name, 0)]).get((name, 0), {}).keys() - spec.tags.keys():
                desk.services.tags.remove(tenant, name, key, actor=actor)
            for key, value in spec.tags.items():
                desk.services.tags.set(tenant, name, key, value, actor=actor)
        if spec.aliases is not None:
            self._set_aliases(desk, name, spec.aliases)
        if spec.production is not None:
            reference = _reference(name, spec.production, "spec.production")
            desk.services.registry.promote(tenant, reference, actor=actor, reason=desk.reason)
        return None

    def _set_aliases(self, desk: Desk, name: str, wanted: Mapping[str, str]) -> None:
        registry, told = desk.services.registry, {"actor": desk.actor, "reason": desk.reason}
        there = view_of(desk.tx, desk.tenant, name).aliases.keys() - _FOLLOW
        for alias in sorted(there - wanted.keys()):
            registry.remove_alias(desk.tenant, name, alias, actor=desk.actor, reason=desk.reason)
        for alias, version in wanted.items():
            reference = _reference(name, version, f"spec.aliases.{alias}")
            registry.set_alias(desk.tenant, name, alias, reference, actor=told["actor"] or "", reason=told["reason"])


def _spec(desk: Desk, name: str) -> Spec:
    aliases, tags = view_of(desk.tx, desk.tenant, name).aliases, tags_of(desk.tx, desk.tenant, [(name, 0)])
    own = adapters.c.tenant == desk.tenant, adapters.c.name == name
    said = desk.tx.execute(select(adapters.c.display_name, adapters.c.description).where(*own)).one()
    return {
        "displayName": said.display_name,
        "description": said.description,
        "tags": dict(sorted(tags.get((name, 0), {}).items())),
        "aliases": {alias: aliases[alias].semver for alias in sorted(aliases) if alias not in _FOLLOW},
        **({"production": aliases[PRODUCTION].semver} if PRODUCTION in aliases else {}),
    }


def _about(field: str, name: str, what: str) -> None:
    try:
        check_name(name, what=what)
    except InvalidRequest as error:
        raise InvalidRequest(f"{field}: {error.message}", field=field) from error


def _reference(name: str, version: str, field: str) -> Reference:
    """The version of an adapter that a document names: by number or digest, not by what may move."""
    joint = "@" if version.startswith("sha256:") else ":"
    try:
        found = parse_reference(f"{name}{joint}{version}")
    except InvalidRequest as error:
        raise InvalidRequest(f"{field} is no version such as 1.2.0: {error.message}", field=field) from error
    if not isinstance(found.selector, Semver | Digest):
        raise InvalidRequest(f"{field} must name a version by its number or its digest.", field=field)
    return found


def _version(desk: Desk, view: AdapterView, version: str, field: str) -> Version:
    return find(desk.tx, view, _reference(view.name, version, field))

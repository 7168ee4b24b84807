"""Rollouts: what moves a route to another version; a document by which its route never had one begins one."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from graftwork.access.names import check_name
from graftwork.declared.desk import Desk
from graftwork.declared.pages import all_pages
from graftwork.declared.resource_kind import VERSION, Link, ResourceKind, Spec
from graftwork.protocol.canonical import canonical, parse
from graftwork.protocol.rollouts import RolloutBody, RolloutSpec
from graftwork.registry.pointers import PRODUCTION
from graftwork.registry.resolving import resolve
from graftwork.traffic.rollouts import pointer, rows
from graftwork.traffic.rollouts.plan import Plan

#: How a rollout ends that has not led to where it should; one that has needs no word.
_UNFINISHED = ("aborted", "superseded")


class RolloutKind(ResourceKind[RolloutBody]):
    """An action, and no state: one that was begun by this very document, however it ended, is not begun again.

    One that leads to what its route means already has nothing to do. None is ever taken away; abort it by its own verb.
    """

    word, body, removable, state = "Rollout", RolloutBody, False, False

    def name(self, document: RolloutBody) -> str:
        return document.spec.route

    def check(self, document: RolloutBody) -> None:
        check_name(document.spec.route, what="route")
        Plan.of(document.spec)

    def spec(self, document: RolloutBody) -> Spec:
        spec: Spec = parse(
            canonical(document.spec.model_dump(mode="json", by_alias=True, exclude_unset=True), what="spec")
        )
        return spec

    def live(self, desk: Desk) -> Mapping[str, Spec]:
        return {one.route: dict(one.spec) for one in all_pages(desk.services.rollouts.list, desk.tenant)}

    def named(self, desk: Desk, names: Collection[str]) -> Mapping[str, Spec]:
        return {}  # `wanted` looks at all that one route had

    def wanted(self, desk: Desk, document: RolloutBody, live: Spec | None) -> tuple[Spec, Spec | None, str | None]:
        wanted, route = self.spec(document), document.spec.route
        full = _filled(wanted)
        begun = {number: _by(spec, full, route) for number, spec in rows.specs_of(desk.tx, desk.tenant, route)}
        for number, spec in begun.items():
            if spec == full:
                return wanted, wanted, _ended(desk, route, number) if number == max(begun) else _again(route, number)
        wanted, live = full, begun[max(begun)] if begun else None
        if len(document.spec.candidates) == 1:
            _, means = pointer.target(desk.tx, desk.tenant, document.spec.route, document.spec.stable)
            if resolve(desk.tx, desk.tenant, document.spec.candidates[0].reference).digest == means.digest:
                return wanted, wanted, f"{document.spec.route} means {means.label} already"
        note = "begins a rollout" if live is None else "begins another rollout, which supersedes one that runs"
        return wanted, live, note

    def set(self, desk: Desk, document: RolloutBody) -> str | None:
        spec = RolloutSpec.model_validate(document.spec)
        desk.services.rollouts.start(desk.tenant, spec, actor=desk.actor, reason=desk.reason, once=None)
        return None

    def links(self, document: RolloutBody) -> Iterator[Link]:
        spec = document.spec
        for at, one in enumerate(spec.candidates):
            yield Link(VERSION, one.reference, f"spec.candidates.{at}.reference")
        for name in dict.fromkeys(analysis.name for analysis in Plan.of(spec).analyses):
            yield Link("AnalysisTemplate", name, "spec.strategy")


def _again(route: str, number: int) -> str:
    return f"begun before, as {route}/{number}; `graftwork rollout start` begins it again"


def _ended(desk: Desk, route: str, number: int) -> str | None:
    """What has become of the newest rollout of a route, where it did not come to its end."""
    found = rows.at_revision(desk.tx, desk.tenant, route, number)
    if found is None or found.state.status not in _UNFINISHED:
        return None
    again = f"retry {route}" if found.state.status == "aborted" else "start"
    return f"ended: {found.state.status}; `graftwork rollout {again}` begins it again"


def _by(spec: Spec, wanted: Spec, route: str) -> Spec:
    """The spec of a rollout, as the document that began it said it if that is this one."""
    said = _as_said(_filled(spec), wanted)
    if said.get("stable") == f"{route}@{PRODUCTION}":  # an adapter's own name has no other
        said["stable"] = wanted["stable"]
    return said


def _filled(spec: Spec) -> Spec:
    """The same whether what is so anyway was written out or not."""
    told = RolloutSpec.model_validate(spec).model_dump(mode="json", by_alias=True, exclude_none=True)
    filled: Spec = parse(canonical(told, what="spec"))
    return filled


def _as_said(live: Spec, wanted: Spec) -> Spec:
    """The live spec without what the server wrote down though nobody had said it: of what it leads away from, and which
    revisions of templates were live when it began, and what they left arguments at.
    """
    filled = {name for name in ("stable", "revision") if name in live and name not in wanted}
    return {name: _same_field(name, one, wanted.get(name)) for name, one in live.items() if name not in filled}


def _same_field(name: str, live: Any, wanted: Any) -> Any:
    if name == "args":
        pinned = {one["name"]: one for one in live}
        return [pinned[one["name"]] for one in wanted or () if one["name"] in pinned]
    return _same_place(live, wanted)


def _same_place(live: Any, wanted: Any) -> Any:
    if isinstance(live, dict) and isinstance(wanted, dict):
        return _as_said(live, wanted)
    if isinstance(live, list) and isinstance(wanted, list):
        return [_same_place(one, *wanted[at : at + 1] or (None,)) for at, one in enumerate(live)]
    return live

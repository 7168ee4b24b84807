"""Routes, tasks, analysis templates and promotion policies: what is set in revisions."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Protocol

from graftwork.declared.desk import Desk
from graftwork.declared.pages import all_pages
from graftwork.declared.resource_kind import MODEL, VERSION, Document, Link, ResourceKind, Spec
from graftwork.protocol.analysis_template import AnalysisTemplate
from graftwork.protocol.promotions import PromotionDocument
from graftwork.protocol.routes import RouteResource
from graftwork.protocol.tasks import TaskResource
from graftwork.registry.adapters import has_adapter
from graftwork.traffic.gates.templates import TEMPLATE
from graftwork.traffic.promotions.promotions import PROMOTION, rollout_of
from graftwork.traffic.resources.kind import Kind
from graftwork.traffic.resources.resources import Resources
from graftwork.traffic.rollouts.plan import Plan
from graftwork.traffic.routes.routes import ROUTE
from graftwork.traffic.tasks.tasks import TASK


class _Named(Protocol):
    name: str


class Revised(ResourceKind[Document]):
    """Their stores are alike (`traffic/resources`); each setting is a revision, each removal leaves them."""

    stored: ClassVar[Kind[Any, Any]]

    @abstractmethod
    def store(self, desk: Desk) -> Resources[Any, Any]: ...

    def name(self, document: Document) -> str:
        metadata: _Named = document.metadata  # type: ignore[attr-defined]
        return metadata.name

    def check(self, document: Document) -> None:
        self.stored.check_name(self.name(document))
        self.spec(document)

    def spec(self, document: Document) -> Spec:
        return self._json(document.spec)  # type: ignore[attr-defined]

    def live(self, desk: Desk) -> Mapping[str, Spec]:
        return {one.name: self._json(one.spec) for one in all_pages(self.store(desk).list, desk.tenant)}

    def set(self, desk: Desk, document: Document) -> str | None:
        spec = document.spec  # type: ignore[attr-defined]
        self.store(desk).set(desk.tenant, self.name(document), spec, actor=desk.actor, reason=desk.reason)
        return None

    def remove(self, desk: Desk, name: str) -> None:
        self.store(desk).remove(desk.tenant, name, actor=desk.actor, reason=desk.reason)

    def _json(self, spec: Any) -> Spec:
        found: Spec = json.loads(self.stored.text(spec))
        return found


class TemplateKind(Revised[AnalysisTemplate]):
    word, body, stored = "AnalysisTemplate", AnalysisTemplate, TEMPLATE

    def store(self, desk: Desk) -> Resources[Any, Any]:
        return desk.services.templates


class TaskKind(Revised[TaskResource]):
    word, body, stored = "Task", TaskResource, TASK

    def store(self, desk: Desk) -> Resources[Any, Any]:
        return desk.services.tasks

    def links(self, document: TaskResource) -> Iterator[Link]:
        if document.spec.adapter is not None:
            yield Link(MODEL, document.spec.adapter, "spec.adapter")


class RouteKind(Revised[RouteResource]):
    word, body, stored = "Route", RouteResource, ROUTE

    def store(self, desk: Desk) -> Resources[Any, Any]:
        return desk.services.routes

    def wanted(self, desk: Desk, document: RouteResource, live: Spec | None) -> tuple[Spec, Spec | None, str | None]:
        name = self.name(document)
        taken = live is None and has_adapter(desk.tx, desk.tenant, name)
        return self.spec(document), live, f"takes over the name of the adapter {name}" if taken else None

    def links(self, document: RouteResource) -> Iterator[Link]:
        for at, rule in enumerate(document.spec.rules):
            for place, match in enumerate(rule.matches):
                yield from (Link("Task", name, f"spec.rules.{at}.matches.{place}.task") for name in match.task or ())
            for place, target in enumerate(rule.targets or ()):
                yield Link(VERSION, target.reference, f"spec.rules.{at}.targets.{place}.reference")


class PromotionKind(Revised[PromotionDocument]):
    word, body, stored = "PromotionPolicy", PromotionDocument, PROMOTION

    def store(self, desk: Desk) -> Resources[Any, Any]:
        return desk.services.promotions

    def links(self, document: PromotionDocument) -> Iterator[Link]:
        if document.spec.gate is not None:
            yield Link("AnalysisTemplate", document.spec.gate.name, "spec.gate")
        for name in dict.fromkeys(one.name for one in Plan.of(rollout_of(document.spec, "any", "any")).analyses):
            yield Link("AnalysisTemplate", name, "spec.strategy")

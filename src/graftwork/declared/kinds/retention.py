"""Retention: which versions of an adapter, or of all that have no rules of their own, stay."""

from __future__ import annotations

from collections.abc import Mapping

from graftwork.access.names import check_name
from graftwork.access.roles import Right
from graftwork.declared.desk import Desk
from graftwork.declared.pages import all_pages
from graftwork.declared.resource_kind import ResourceKind, Spec, spec_of
from graftwork.protocol.retention import RetentionResource, RetentionSpec
from graftwork.registry.owners import RETENTION
from graftwork.registry.retention.rules import Rules


class RetentionKind(ResourceKind[RetentionResource]):
    """Without a name they are of all adapters."""

    word, body, right = RETENTION, RetentionResource, Right.ADMINISTER

    def name(self, document: RetentionResource) -> str:
        return document.metadata.name or ""

    def check(self, document: RetentionResource) -> None:
        if document.metadata.name is not None:
            check_name(document.metadata.name, what="adapter")

    def spec(self, document: RetentionResource) -> Spec:
        return document.spec.model_dump(by_alias=True)

    def live(self, desk: Desk) -> Mapping[str, Spec]:
        found = all_pages(desk.services.retention.list, desk.tenant)
        return {name: spec_of(RetentionSpec, rules.to_json()) for name, rules in found}

    def set(self, desk: Desk, document: RetentionResource) -> str | None:
        rules = Rules(**document.spec.model_dump())
        desk.services.retention.set(desk.tenant, self.name(document), rules, actor=desk.actor)
        return None

    def remove(self, desk: Desk, name: str) -> None:
        desk.services.retention.remove(desk.tenant, name, actor=desk.actor)

"""Webhooks: where events are sent; their secrets are never in a document."""

from __future__ import annotations

from collections.abc import Mapping

from graftwork.access.names import check_name
from graftwork.access.roles import Right
from graftwork.declared.desk import Desk
from graftwork.declared.pages import all_pages
from graftwork.declared.resource_kind import ResourceKind, Spec
from graftwork.protocol.declared import WebhookResource
from graftwork.registry.owners import WEBHOOK


class WebhookKind(ResourceKind[WebhookResource]):
    """A new one makes a secret; one that is there keeps its own. Where it sends to is seen by administrators only."""

    word, body, right, reading = WEBHOOK, WebhookResource, Right.ADMINISTER, Right.ADMINISTER

    def name(self, document: WebhookResource) -> str:
        return document.metadata.name

    def check(self, document: WebhookResource) -> None:
        check_name(document.metadata.name, what="webhook")

    def spec(self, document: WebhookResource) -> Spec:
        return document.spec.model_dump(by_alias=True)

    def live(self, desk: Desk) -> Mapping[str, Spec]:
        return {
            one.name: {"url": one.url, "events": list(one.events), "subjects": list(one.subjects)}
            for one in all_pages(desk.services.webhooks.list, desk.tenant)
        }

    def set(self, desk: Desk, document: WebhookResource) -> str | None:
        spec = document.spec
        _, secret = desk.services.webhooks.set(
            desk.tenant,
            document.metadata.name,
            spec.url,
            spec.events,
            spec.subjects,
            actor=desk.actor,
            reason=desk.reason,
        )
        return secret

    def remove(self, desk: Desk, name: str) -> None:
        desk.services.webhooks.remove(desk.tenant, name, actor=desk.actor, reason=desk.reason, if_match=None)

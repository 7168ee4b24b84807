"""Subjects: what an event says that it is about; and what kinds of events there are."""

from __future__ import annotations

from typing import Final

ADAPTERS = "adapters/"

VERSION_DELETED: Final = "version.deleted"
ADAPTER_DELETED: Final = "adapter.deleted"
SIGNATURE_ADDED: Final = "signature.added"

#: Every kind of event, so that who asks for one that is none is told so.
KINDS: Final = frozenset({
    "adapter.created", ADAPTER_DELETED, "adapter.described",
    "alias.removed", "alias.set",
    "base.created", "base.stored",
    "document.added",
    "evaluation.added",
    "gc.began", "gc.ended",
    "grant.created", "grant.removed",
    "hold.released", "hold.set",
    "key.changed", "key.created", "key.revoked", "key.rotated",
    "lineage.added",
    "policy.removed", "policy.set",
    "predictions.forgotten",
    "promotion.removed", "promotion.rolled_back", "promotion.set",
    "recording.set",
    "resources.applied",
    "retention.removed", "retention.set",
    "rollout.aborted", "rollout.completed", "rollout.held", "rollout.mirror_set", "rollout.passed", "rollout.paused",
    "rollout.promoted", "rollout.resumed", "rollout.started", "rollout.superseded", "rollout.waited", "rollout.warmed",
    "rollout.weight_set",
    "route.removed", "route.rolled_back", "route.set",
    SIGNATURE_ADDED,
    "stage.set",
    "tag.removed", "tag.set",
    "task.removed", "task.rolled_back", "task.set",
    "template.removed", "template.rolled_back", "template.set",
    "tenant.changed", "tenant.created",
    "user.removed", "user.set",
    "version.approved", "version.created", VERSION_DELETED, "version.deprecated", "version.promoted",
    "version.rejected", "version.rolled_back", "version.undeprecated",
    "webhook.removed", "webhook.rotated", "webhook.set",
})  # fmt: skip


def subject_of(name: str) -> str:
    """What the events about an adapter have as their subject."""
    return f"{ADAPTERS}{name}"


def name_in(subject: str) -> str | None:
    """The adapter that an event's subject speaks of; None where it speaks of something else."""
    return subject.removeprefix(ADAPTERS) if subject.startswith(ADAPTERS) else None

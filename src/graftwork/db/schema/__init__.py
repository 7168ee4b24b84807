"""The schema: every table as the newest migration leaves it, in a file for each of what they are about.

Every row carries its tenant. SQL that reads or writes a table lives beside the noun it belongs to, not here.
"""

from __future__ import annotations

from graftwork.db.schema.access import api_keys, grants, tenants, users, webhook_deliveries, webhooks
from graftwork.db.schema.declared import applied_resources
from graftwork.db.schema.ground import HEAD, metadata
from graftwork.db.schema.lifecycle import approvals, deprecations, hold_releases, holds, policies, retention_rules
from graftwork.db.schema.lineage import documents, lineage_edges, lineage_nodes, signatures
from graftwork.db.schema.log import events, idempotency_keys, leases
from graftwork.db.schema.predictions import (
    feedback,
    prediction_texts,
    predictions,
    recordings,
    shadow_diffs,
    shadow_texts,
    usage_days,
)
from graftwork.db.schema.search import evaluations, facts, metrics, tags, texts
from graftwork.db.schema.sessions import session_pins
from graftwork.db.schema.traffic import resource_revisions, resources, rollout_arms, rollout_steps, rollouts
from graftwork.db.schema.versions import adapters, aliases, bases, checkpoints, versions

__all__ = [
    "HEAD",
    "adapters",
    "aliases",
    "api_keys",
    "applied_resources",
    "approvals",
    "bases",
    "checkpoints",
    "deprecations",
    "documents",
    "evaluations",
    "events",
    "facts",
    "feedback",
    "grants",
    "hold_releases",
    "holds",
    "idempotency_keys",
    "leases",
    "lineage_edges",
    "lineage_nodes",
    "metadata",
    "metrics",
    "policies",
    "prediction_texts",
    "predictions",
    "recordings",
    "resource_revisions",
    "resources",
    "retention_rules",
    "rollout_arms",
    "rollout_steps",
    "rollouts",
    "session_pins",
    "shadow_diffs",
    "shadow_texts",
    "signatures",
    "tags",
    "tenants",
    "texts",
    "usage_days",
    "users",
    "versions",
    "webhook_deliveries",
    "webhooks",
]

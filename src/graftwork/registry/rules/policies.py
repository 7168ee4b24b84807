"""Policies: their SQL and events; a tenant has one at most, and each of its adapters another."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import ColumnElement, and_, delete, select

from graftwork.access import events
from graftwork.db import Transaction
from graftwork.db.schema import policies
from graftwork.protocol.canonical import canonical, parse
from graftwork.registry.owners import POLICY, disown
from graftwork.registry.rules.policy import OPEN, POLICY_REMOVED, POLICY_SET, POLICY_SUBJECT, Policy
from graftwork.registry.subjects import subject_of

#: In place of an adapter's name: the policy is its tenant's.
WHOLE_TENANT = ""


def all_policies(tx: Transaction, where: ColumnElement[bool]) -> dict[tuple[str, str], Policy]:
    """By (tenant, adapter)."""
    return {
        (row.tenant, row.adapter): Policy.from_json(parse(row.spec))
        for row in tx.execute(select(policies).where(where))
    }


def holding(found: Mapping[tuple[str, str], Policy], tenant: str, adapter: str) -> Policy:
    """Of these, the one that holds for an adapter: its own, else its tenant's, else the open one."""
    return found.get((tenant, adapter)) or found.get((tenant, WHOLE_TENANT)) or OPEN


def policy_at(tx: Transaction, tenant: str, adapter: str) -> Policy | None:
    """The one that was set right there; None where there is none."""
    return all_policies(tx, _at(tenant, adapter)).get((tenant, adapter))


def put(
    tx: Transaction, tenant: str, adapter: str, policy: Policy | None, *, actor: str, reason: str | None, at: str
) -> None:
    """Set a policy, or with None take it away, and tell the log; nothing where it is so already."""
    before = policy_at(tx, tenant, adapter)
    if before == policy:
        return
    tx.execute(delete(policies).where(_at(tenant, adapter)))
    if policy is not None:
        row = {"tenant": tenant, "adapter": adapter, "spec": canonical(policy.to_json(), what="policy")}
        tx.execute(policies.insert().values({**row, "updated_at": at, "updated_by": actor}))
    else:
        disown(tx, tenant, [(POLICY, adapter)])
    payload = {
        "before": before.to_json() if before else None,
        "after": policy.to_json() if policy else None,
        "reason": reason,
    }
    subject = subject_of(adapter) if adapter != WHOLE_TENANT else POLICY_SUBJECT
    events.append(tx, tenant, actor, POLICY_SET if policy else POLICY_REMOVED, subject, payload, at=at)


def _at(tenant: str, adapter: str) -> ColumnElement[bool]:
    return and_(policies.c.tenant == tenant, policies.c.adapter == adapter)

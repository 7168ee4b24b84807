"""Policies: their SQL; a tenant has one at most, and each of its adapters another."""

from __future__ import annotations

from sqlalchemy import ColumnElement, and_, delete, select

from graftwork.db import Transaction
from graftwork.db.canonical import canonical, parse
from graftwork.db.schema import policies
from graftwork.registry.rules.policy import Policy

#: In place of an adapter's name: the policy is its tenant's.
WHOLE_TENANT = ""


def all_policies(tx: Transaction, where: ColumnElement[bool]) -> dict[tuple[str, str], Policy]:
    """By (tenant, adapter)."""
    return {
        (row.tenant, row.adapter): Policy.from_json(parse(row.spec))
        for row in tx.execute(select(policies).where(where))
    }


def policy_at(tx: Transaction, tenant: str, adapter: str) -> Policy | None:
    """The one that was set right there; None where there is none."""
    return all_policies(tx, _at(tenant, adapter)).get((tenant, adapter))


def put(tx: Transaction, tenant: str, adapter: str, policy: Policy | None, *, at: str, actor: str) -> None:
    """Set a policy, or with None take it away."""
    tx.execute(delete(policies).where(_at(tenant, adapter)))
    if policy is not None:
        row = {"tenant": tenant, "adapter": adapter, "spec": canonical(policy.to_json(), what="policy")}
        tx.execute(policies.insert().values({**row, "updated_at": at, "updated_by": actor}))


def _at(tenant: str, adapter: str) -> ColumnElement[bool]:
    return and_(policies.c.tenant == tenant, policies.c.adapter == adapter)

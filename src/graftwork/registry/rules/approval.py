"""Approval: who approved or rejected a version, what that comes to, and the SQL of these records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from sqlalchemy import ColumnElement, Row, func, select

from graftwork.db import Transaction
from graftwork.db.schema import approvals
from graftwork.registry.rules.policy import ApprovalRule

Approval = Literal["pending", "approved", "rejected"]
Verdict = Literal["approved", "rejected"]
#: What each kind of event about it decided.
DECIDED: Final[Mapping[str, Verdict]] = {"version.approved": "approved", "version.rejected": "rejected"}


@dataclass(frozen=True)
class Opinion:
    """One verdict of one person; records are added and never changed, and the last of each person stands."""

    verdict: Verdict
    reason: str | None
    actor: str
    at: str

    def to_json(self) -> dict[str, Any]:
        return dict(self.__dict__)

    @classmethod
    def from_row(cls, row: Row[Any]) -> Opinion:
        return cls(row.verdict, row.reason, row.created_by, row.created_at)


def approval_of(opinions: Iterable[Opinion], author: str, rule: ApprovalRule) -> Approval:
    """What the opinions come to; those of people whom the rule does not ask do not count."""
    last = {opinion.actor: opinion.verdict for opinion in opinions}
    approve = [actor for actor, verdict in last.items() if verdict == "approved" and rule.may_approve(actor, author)]
    reject = [actor for actor, verdict in last.items() if verdict == "rejected" and rule.may_decide(actor)]
    if reject and rule.rejection_vetoes:
        return "rejected"
    if len(approve) >= rule.needed:
        return "approved"
    return "rejected" if len(reject) >= rule.needed else "pending"


def opinions(tx: Transaction, where: ColumnElement[bool]) -> dict[tuple[str, str], dict[int, tuple[Opinion, ...]]]:
    """By (tenant, adapter) and the version's sequence number, in the order they were given."""
    found: dict[tuple[str, str], dict[int, tuple[Opinion, ...]]] = {}
    order = (approvals.c.tenant, approvals.c.adapter, approvals.c.sequence, approvals.c.number)
    for row in tx.execute(select(approvals).where(where).order_by(*order)):
        held = found.setdefault((row.tenant, row.adapter), {})
        held[row.sequence] = (*held.get(row.sequence, ()), Opinion.from_row(row))
    return found


def add(tx: Transaction, tenant: str, adapter: str, sequence: int, opinion: Opinion) -> None:
    key = {"tenant": tenant, "adapter": adapter, "sequence": sequence}
    given = select(func.count()).where(*(approvals.c[column] == value for column, value in key.items()))
    row = {
        **key,
        "number": tx.execute(given).scalar_one() + 1,
        "verdict": opinion.verdict,
        "reason": opinion.reason,
        "created_at": opinion.at,
        "created_by": opinion.actor,
    }
    tx.execute(approvals.insert().values(row))

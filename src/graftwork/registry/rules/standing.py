"""Standing: what the later facts about one adapter's versions come to; read with them, from one moment."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, Table, and_, select, true

from graftwork.db import Transaction
from graftwork.db.schema import approvals, deprecations, policies, signatures
from graftwork.registry.rules.approval import Opinion, approval_of, opinions
from graftwork.registry.rules.deprecation import Deprecation, all_deprecations
from graftwork.registry.rules.policies import WHOLE_TENANT, all_policies
from graftwork.registry.rules.policy import OPEN, Policy, may_enter

if TYPE_CHECKING:
    from graftwork.registry.versions import Version


@dataclass(frozen=True)
class Standing:
    """One adapter's policy, and by sequence number what was said of its versions."""

    policy: Policy = OPEN
    opinions: Mapping[int, tuple[Opinion, ...]] = field(default_factory=dict)
    signers: Mapping[int, frozenset[str]] = field(default_factory=dict)
    deprecations: Mapping[int, Deprecation] = field(default_factory=dict)

    def of(self, version: Version) -> Version:
        """The version with its approval, its signers, its deprecation, and why the policy forbids to serve it."""
        found: dict[str, Any] = {}
        if given := self.opinions.get(version.sequence):
            found["approval"] = approval_of(given, version.created_by, self.policy.approval)
        if signers := self.signers.get(version.sequence):
            found["signed_by"] = tuple(sorted(signers))
        if (deprecation := self.deprecations.get(version.sequence)) is not None:
            found["deprecated"] = deprecation
        if found:
            version = replace(version, **found)
        forbidden = may_enter("serving", version, self.policy)
        return replace(version, forbidden=forbidden) if forbidden else version


@dataclass(frozen=True)
class Standings:
    """Those of many adapters, by (tenant, adapter)."""

    policies: Mapping[tuple[str, str], Policy]
    opinions: Mapping[tuple[str, str], Mapping[int, tuple[Opinion, ...]]]
    signers: Mapping[tuple[str, str], Mapping[int, frozenset[str]]]
    deprecations: Mapping[tuple[str, str], Mapping[int, Deprecation]]

    def of(self, tenant: str, adapter: str) -> Standing:
        key = (tenant, adapter)
        policy = self.policies.get(key) or self.policies.get((tenant, WHOLE_TENANT), OPEN)
        return Standing(policy, self.opinions.get(key, {}), self.signers.get(key, {}), self.deprecations.get(key, {}))


def read_standings(tx: Transaction, tenant: str | None = None, adapters: Collection[str] = ()) -> Standings:
    """Those of some adapters of one tenant; without a tenant, of all there are."""

    def where(table: Table, *more: str) -> ColumnElement[bool]:
        if tenant is None:
            return true()
        return and_(table.c.tenant == tenant, table.c.adapter.in_([*adapters, *more]))

    return Standings(
        all_policies(tx, where(policies, WHOLE_TENANT)),
        opinions(tx, where(approvals)),
        _signers(tx, where(signatures)),
        all_deprecations(tx, where(deprecations)),
    )


def _signers(tx: Transaction, where: ColumnElement[bool]) -> dict[tuple[str, str], dict[int, frozenset[str]]]:
    """By (tenant, adapter) and the version's sequence number: fingerprints of the keys that signed it."""
    found: dict[tuple[str, str], dict[int, frozenset[str]]] = {}
    columns = (signatures.c.tenant, signatures.c.adapter, signatures.c.sequence, signatures.c.fingerprint)
    for tenant, adapter, sequence, fingerprint in tx.execute(select(*columns).where(where)):
        held = found.setdefault((tenant, adapter), {})
        held[sequence] = held.get(sequence, frozenset()) | {fingerprint}
    return found


def standing_of(tx: Transaction, tenant: str, adapter: str) -> Standing:
    return read_standings(tx, tenant, [adapter]).of(tenant, adapter)

"""Standing: what the later facts about one adapter's versions come to; read with them, from one moment."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, Row, Table, and_, select, true

from graftwork.db import Transaction
from graftwork.db.keys import Rows, rows_at
from graftwork.db.schema import policies, signatures
from graftwork.registry.rules.approval import Opinion, approval_of, opinions
from graftwork.registry.rules.deprecation import Deprecation, all_deprecations
from graftwork.registry.rules.policies import WHOLE_TENANT, all_policies, holding
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
        """The version with its approval, its signers, its deprecation, and why the policy forbids to serve it.

        Whatever it said of these before; it is the same object where that was right.
        """
        given = self.opinions.get(version.sequence, ())
        version = _saying(
            version,
            approval=approval_of(given, version.created_by, self.policy.approval),
            signed_by=tuple(sorted(self.signers.get(version.sequence, ()))),
            deprecated=self.deprecations.get(version.sequence),
        )
        return _saying(version, forbidden=may_enter("serving", version, self.policy))


def _saying(version: Version, **facts: Any) -> Version:
    return version if all(getattr(version, name) == fact for name, fact in facts.items()) else replace(version, **facts)


@dataclass(frozen=True)
class Standings:
    """Those of many adapters, by (tenant, adapter)."""

    policies: Mapping[tuple[str, str], Policy]
    opinions: Mapping[tuple[str, str], Mapping[int, tuple[Opinion, ...]]]
    signers: Mapping[tuple[str, str], Mapping[int, frozenset[str]]]
    deprecations: Mapping[tuple[str, str], Mapping[int, Deprecation]]

    def of(self, tenant: str, adapter: str) -> Standing:
        key = (tenant, adapter)
        policy = holding(self.policies, tenant, adapter)
        return Standing(policy, self.opinions.get(key, {}), self.signers.get(key, {}), self.deprecations.get(key, {}))


def read_standings(tx: Transaction, tenant: str | None = None, adapters: Collection[str] = ()) -> Standings:
    """Those of some adapters of one tenant; without a tenant, of all there are."""

    def rows(table: Table) -> Iterable[Row[Any]]:
        query = select(table).order_by(*table.primary_key.columns)
        if tenant is not None:
            query = query.where(table.c.tenant == tenant, table.c.adapter.in_(adapters))
        return tx.execute(query)

    demanded = true() if tenant is None else _over(tenant, adapters)
    return Standings(all_policies(tx, demanded), opinions(rows), _signers(rows), all_deprecations(rows))


def standings_at(tx: Transaction, tenant: str, wanted: Iterable[tuple[str, int]]) -> Standings:
    """The same with what was said of the versions at these (adapter, sequence) pairs only."""
    keys = sorted({(tenant, adapter, sequence) for adapter, sequence in wanted})
    names = {adapter for _, adapter, _ in keys}

    def rows(table: Table) -> Iterable[Row[Any]]:
        query = select(table).order_by(*table.primary_key.columns)
        return rows_at(tx, query, (table.c.tenant, table.c.adapter, table.c.sequence), keys)

    return Standings(all_policies(tx, _over(tenant, names)), opinions(rows), _signers(rows), all_deprecations(rows))


def _over(tenant: str, adapters: Iterable[str]) -> ColumnElement[bool]:
    return and_(policies.c.tenant == tenant, policies.c.adapter.in_([*adapters, WHOLE_TENANT]))


def _signers(rows: Rows) -> dict[tuple[str, str], dict[int, frozenset[str]]]:
    """By (tenant, adapter) and the version's sequence number: fingerprints of the keys that signed it."""
    found: dict[tuple[str, str], dict[int, frozenset[str]]] = {}
    for row in rows(signatures):
        held = found.setdefault((row.tenant, row.adapter), {})
        held[row.sequence] = held.get(row.sequence, frozenset()) | {row.fingerprint}
    return found


def standing_of(tx: Transaction, tenant: str, adapter: str) -> Standing:
    return read_standings(tx, tenant, [adapter]).of(tenant, adapter)

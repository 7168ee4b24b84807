"""Deprecation: a version that is still served and should no longer be used; and its SQL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import ColumnElement, and_, delete, select

from graftwork.db import Transaction
from graftwork.db.schema import deprecations

DEPRECATED: Final = "version.deprecated"
UNDEPRECATED: Final = "version.undeprecated"


@dataclass(frozen=True)
class Deprecation:
    message: str  #: what to use instead, and why
    since: str  #: RFC 3339, UTC, microseconds
    until: str | None = None  #: when it is meant to go; nothing happens then by itself

    def to_json(self) -> dict[str, Any]:
        return dict(self.__dict__)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Deprecation:
        return cls(data["message"], data["since"], data["until"])


def all_deprecations(tx: Transaction, where: ColumnElement[bool]) -> dict[tuple[str, str], dict[int, Deprecation]]:
    """By (tenant, adapter) and the version's sequence number."""
    found: dict[tuple[str, str], dict[int, Deprecation]] = {}
    for row in tx.execute(select(deprecations).where(where)):
        deprecation = Deprecation(row.message, row.deprecated_at, row.until)
        found.setdefault((row.tenant, row.adapter), {})[row.sequence] = deprecation
    return found


def put(
    tx: Transaction, tenant: str, adapter: str, sequence: int, deprecation: Deprecation | None, *, actor: str
) -> None:
    """Deprecate a version, or with None no longer; what it was before is in the log."""
    where = and_(
        deprecations.c.tenant == tenant, deprecations.c.adapter == adapter, deprecations.c.sequence == sequence
    )
    tx.execute(delete(deprecations).where(where))
    if deprecation is not None:
        row = {"tenant": tenant, "adapter": adapter, "sequence": sequence, "message": deprecation.message}
        row |= {"until": deprecation.until, "deprecated_at": deprecation.since, "deprecated_by": actor}
        tx.execute(deprecations.insert().values(row))

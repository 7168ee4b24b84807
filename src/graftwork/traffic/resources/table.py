"""LiveTable: what every name of a kind means, as a part of the snapshot that requests are decided on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, TypeVar

from graftwork.db import Transaction
from graftwork.registry.snapshot import Changed
from graftwork.traffic.resources import rows
from graftwork.traffic.resources.kind import Kind
from graftwork.traffic.resources.resource import Made

#: So many that changed are looked up by name; of more, all are read.
_MOST = 100


@dataclass(frozen=True)
class LiveTable(Generic[Made]):
    """Immutable."""

    by_name: Mapping[tuple[str, str], Made] = field(default_factory=dict)  #: by (tenant, name)

    def find(self, tenant: str, name: str) -> Made | None:
        return self.by_name.get((tenant, name))

    def of(self, tenant: str) -> Mapping[str, Made]:
        """A tenant's by name, sorted."""
        return self._by_tenant.get(tenant, {})

    @cached_property
    def _by_tenant(self) -> dict[str, dict[str, Made]]:
        found: dict[str, dict[str, Made]] = {}
        for (tenant, name), one in sorted(self.by_name.items()):
            found.setdefault(tenant, {})[name] = one
        return found


Table = TypeVar("Table", bound=LiveTable[Any])


def reader_of(
    table: Callable[[Mapping[tuple[str, str], Any]], Table], kind: Kind[Any, Any]
) -> Callable[[Transaction, Table | None, Changed], Table]:
    """Reads that table of a kind, as the reader of a snapshot asks: again only what the log speaks of."""

    def read(tx: Transaction, known: Table | None, changed: Changed) -> Table:
        keys = {(tenant, name) for tenant, about in changed or () if (name := kind.name_in(about)) is not None}
        if known is None or changed is None or len(keys) > _MOST:
            return table({(one.tenant, one.name): one for one in rows.all_live(tx, kind)})
        if not keys:
            return known
        kept = {key: one for key, one in known.by_name.items() if key not in keys}
        return table(kept | {(one.tenant, one.name): one for one in rows.live_of(tx, kind, keys)})

    return read

"""named_blobs: every blob that rows of a database name, but for what only deleted versions had: it may be gone."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import select, union

from graftwork.db import Transaction
from graftwork.db.schema import adapters, bases
from graftwork.registry.retention.roots import wanted


def named_blobs(tx: Transaction) -> Iterator[tuple[str, str]]:
    """Tenant and digest of each, once."""
    tenants = union(select(adapters.c.tenant), select(bases.c.tenant))
    for tenant in tx.execute(tenants).scalars().all():
        for digest in sorted(wanted(tx, tenant)):
            yield tenant, digest

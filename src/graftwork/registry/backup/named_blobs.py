"""named_blobs: every blob that rows of a database name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sqlalchemy import Column, select

from graftwork.artifacts.bundle import Manifest
from graftwork.db import Transaction
from graftwork.db.canonical import parse
from graftwork.db.schema import checkpoints, versions

#: Columns of manifests. A test asks for each column of digests in the schema whether it names a blob.
MANIFESTS: Final[tuple[Column[str], ...]] = (versions.c.manifest, checkpoints.c.manifest)


def named_blobs(tx: Transaction) -> Iterator[tuple[str, str, int]]:
    """Tenant, digest and size in bytes of each, once."""
    seen: set[tuple[str, str]] = set()
    for column in MANIFESTS:
        query = select(column.table.c.tenant, column).execution_options(yield_per=100)
        with tx.execute(query) as rows:
            for tenant, manifest in rows:
                for file in Manifest.from_json(parse(manifest)).files:
                    if (tenant, file.digest) not in seen:
                        seen.add((tenant, file.digest))
                        yield tenant, file.digest, file.size

"""restore: puts a backup back into an empty database and a store, and checks all of it before anybody can see it.

The blobs go first, then all rows in one transaction, which commits when chain, counts and blobs are right. Whoever is
killed before leaves an empty database, and blobs that nothing names; the next try goes on.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, column, func, inspect, select, table, text
from sqlalchemy.exc import OperationalError, SQLAlchemyError

from graftwork.access.chain import Chain
from graftwork.access.events import verify_chain
from graftwork.artifacts.bundle import Manifest
from graftwork.artifacts.stores import BlobStore
from graftwork.db import Database, Transaction
from graftwork.db.migrate import has_schema, upgrade
from graftwork.db.schema import checkpoints, metadata, versions
from graftwork.errors import Conflict, Damaged, GraftworkError
from graftwork.protocol.canonical import parse
from graftwork.registry.backup.lines import is_blob, is_row, read_lines
from graftwork.registry.backup.named_blobs import named_blobs
from graftwork.registry.backup.summary import Summary
from graftwork.registry.retention.owner import claim

_BATCH = 1000


def check(folder: Path, blobs: BlobStore) -> Summary:
    """Read all of a backup and compare it with its digests.

    Raises:
        Damaged: saying what is missing or not what was written.
    """
    summary = _checked_tables(folder)
    for tenant, digest in read_lines(folder / "blobs.jsonl", summary.blobs, is_blob):
        for _ in _read_blob(blobs, tenant, digest):
            pass
    return summary


def restore(folder: Path, blobs: BlobStore, database_url: str, store: BlobStore) -> Summary:
    """Put the backup in `folder`, whose blobs lie in the store `blobs`, into an empty database and `store`.

    A backup of an older Graftwork is brought up to date.

    Raises:
        Conflict: the database is not empty.
        Damaged: something of the backup is missing or not what was written; nothing was restored.
        Unavailable: a newer Graftwork wrote it.
    """
    summary = _checked_tables(folder)
    with Database(database_url, upgrade=False) as database:
        with database.reading() as tx:
            _refuse_used(tx)
        listed = set()
        for tenant, digest in read_lines(folder / "blobs.jsonl", summary.blobs, is_blob):
            store.put(tenant, digest, _read_blob(blobs, tenant, digest))
            listed.add((tenant, digest))
        with database.transaction() as tx:
            _refuse_used(tx)
            upgrade(tx, None, to=summary.schema)
            if tx.dialect.name == "sqlite":  # a migration may have put off what each row is to be checked for
                tx.exec_driver_sql("PRAGMA defer_foreign_keys = OFF")
            _check_tables(tx, summary)
            for name in summary.tables:
                _fill(tx, folder, name, summary)
            upgrade(tx, summary.schema)
            _restart_counters(tx)
            _check_rows(tx, summary, store, listed)
    for tenant in {tenant for tenant, _ in listed}:
        claim(store, tenant, lambda: summary.head)
    return summary


def _checked_tables(folder: Path) -> Summary:
    """The summary, when tables and chain are what it says."""
    summary, chain = Summary.read(folder), Chain()
    for name, lines in summary.tables.items():
        for row in read_lines(folder / "tables" / f"{name}.jsonl", lines, is_row):
            if name == "events":
                chain.follow(row)
    if (chain.events, chain.head) != (summary.events, summary.head):
        raise Damaged(f"The backup's event log ends at {chain.head}, not at {summary.head}. Take another backup.")
    return summary


def _read_blob(blobs: BlobStore, tenant: str, digest: str) -> Iterator[bytes]:
    try:
        yield from blobs.open(tenant, digest)
    except Damaged as error:
        raise Damaged(f"The backup's blob {digest} of {tenant} is missing or damaged. Take another backup.") from error


def _refuse_used(tx: Transaction) -> None:
    if has_schema(tx):
        raise Conflict(
            "The database is in use already; a backup is restored into an empty one. Choose another GRAFTWORK_HOME, or "
            "another database with GRAFTWORK_DATABASE_URL."
        )


def _check_tables(tx: Transaction, summary: Summary) -> None:
    there = metadata.tables.keys() & inspect(tx).get_table_names()  # beside those of a search index, made from them
    if strange := sorted(there ^ summary.tables.keys()):
        raise Damaged(f"The backup's tables are not those of the schema {summary.schema}: {', '.join(strange)}.")


def _fill(tx: Transaction, folder: Path, name: str, summary: Summary) -> None:
    columns = {one["name"] for one in inspect(tx).get_columns(name)}
    try:
        for rows in _batches(read_lines(folder / "tables" / f"{name}.jsonl", summary.tables[name], is_row)):
            if any(row.keys() != columns for row in rows):
                raise ValueError("a row has other columns")
            tx.execute(table(name, *map(column, rows[0])).insert(), rows)
        count = tx.execute(select(func.count()).select_from(table(name))).scalar_one()
    except (SQLAlchemyError, ValueError, OverflowError) as error:
        if isinstance(error, OperationalError) or getattr(error, "connection_invalidated", False):
            raise
        reason = " ".join(str(getattr(error, "orig", error)).split())
        raise Damaged(f"The backup's rows of {name} contradict the schema {summary.schema}: {reason}.") from error
    if count != summary.tables[name].lines:
        raise Damaged(f"Of {name} {count} rows were restored, not {summary.tables[name].lines}.")


def _batches(rows: Iterator[Any]) -> Iterator[list[Any]]:
    batch: list[Any] = []
    for row in rows:
        batch.append(row)
        if len(batch) == _BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def _restart_counters(tx: Connection) -> None:
    """Let PostgreSQL's counters go on after the numbers that rows brought with them."""
    if tx.dialect.name != "postgresql":
        return
    for one in metadata.sorted_tables:
        if (counted := one.autoincrement_column) is not None:
            last = tx.execute(select(func.coalesce(func.max(counted), 0))).scalar_one()
            names = {"table": one.name, "column": counted.name, "next": last + 1}
            tx.execute(text("SELECT setval(pg_get_serial_sequence(:table, :column), :next, false)"), names)


def _check_rows(tx: Transaction, summary: Summary, store: BlobStore, listed: set[tuple[str, str]]) -> None:
    verify_chain(tx, expected_head=summary.head)
    for of in (versions, checkpoints):
        for manifest, digest in tx.execute(select(of.c.manifest, of.c.digest)):
            _check_manifest(manifest, digest)
    for tenant, digest in named_blobs(tx):
        if (tenant, digest) not in listed or store.has(tenant, digest) is None:
            raise Damaged(f"The backup's rows name the blob {digest} of {tenant}, which is not in it.")


def _check_manifest(manifest: str, digest: str) -> None:
    try:
        found = Manifest.from_json(parse(manifest)).digest()
    except (GraftworkError, ValueError, RecursionError) as error:
        raise Damaged(f"The backup's manifest {digest} cannot be read: {error}") from error
    if found != digest:
        raise Damaged(f"The backup's manifest {digest} is another one: its digest is {found}.")

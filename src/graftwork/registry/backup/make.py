"""back_up: writes a registry and its artifacts into a folder, while both are in use.

All rows are read in one transaction, so at one moment. The blobs that they name are copied after it: blobs lie before
their rows do and never change (law 9), so that every one of them is there.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Table, select

from graftwork.access.chain import Chain
from graftwork.access.clock import Clock, timestamp, utc_now
from graftwork.artifacts.partial import PARTIAL
from graftwork.artifacts.stores import BlobStore
from graftwork.db import Database, Transaction
from graftwork.db.schema import HEAD, events, metadata
from graftwork.errors import Conflict, Damaged
from graftwork.registry.backup.lines import read_lines, write_lines
from graftwork.registry.backup.named_blobs import named_blobs
from graftwork.registry.backup.summary import Lines, Summary
from graftwork.version import __version__

#: Opens the artifact store in a folder of a backup.
OpenBlobs = Callable[[Path], BlobStore]


def back_up(
    database: Database, store: BlobStore, folder: Path, *, open_blobs: OpenBlobs, clock: Clock = utc_now
) -> Summary:
    """Make a backup in a new `folder`.

    Until it is whole it lies hidden beside that, where the next try goes on with the blobs that have come.

    Raises:
        Conflict: something lies at `folder` already, or somebody else is writing there.
        Damaged: the event log does not hold, or a blob that a row names is missing or damaged.
    """
    if os.path.lexists(folder):
        raise Conflict(f"{folder} is there already; choose another place for the backup.")
    with _partial(folder) as partial:
        shutil.rmtree(partial / "tables", ignore_errors=True)
        (partial / "tables").mkdir()
        chain, created_at = Chain(), timestamp(clock())
        with database.reading() as tx:
            tables = {
                table.name: write_lines(partial / "tables" / f"{table.name}.jsonl", _rows(tx, table, chain))
                for table in metadata.sorted_tables
            }
            blobs = write_lines(partial / "blobs.jsonl", named_blobs(tx))
        _copy(partial, blobs, store, open_blobs(partial / "blobs"))
        summary = Summary(__version__, HEAD, created_at, chain.events, chain.head, tables, blobs)
        summary.write(partial)
        partial.rename(folder)
    return summary


def _rows(tx: Transaction, table: Table, chain: Chain) -> Iterator[dict[str, Any]]:
    query = select(table).order_by(*table.primary_key.columns).execution_options(yield_per=1000)
    with tx.execute(query) as rows:
        for row in rows:
            found = row._asdict()
            if table is events:
                chain.follow(found)
            yield found


def _copy(partial: Path, listed: Lines, source: BlobStore, target: BlobStore) -> None:
    wanted: dict[str, set[str]] = {}
    for tenant, digest in read_lines(partial / "blobs.jsonl", listed):
        wanted.setdefault(tenant, set()).add(digest)
        # What has come before was verified when it was put; restoring verifies everything again.
        if target.has(tenant, digest) is None:
            try:
                target.put(tenant, digest, source.open(tenant, digest))
            except Damaged as error:
                raise Damaged(
                    f"The artifacts are not whole, so no backup was made: {error.message} `graftwork verify` lists "
                    "everything that is missing or damaged."
                ) from error
    shutil.rmtree(partial / "blobs" / PARTIAL, ignore_errors=True)
    for tenant in (path.name for path in (partial / "blobs").glob("*") if path.is_dir()):
        for stored in target.list(tenant):  # what an interrupted try copied and was deleted since
            if stored.digest not in wanted.get(tenant, ()):
                target.delete(tenant, stored.digest)


@contextmanager
def _partial(folder: Path) -> Iterator[Path]:
    partial = folder.with_name(f".{folder.name}.partial")
    partial.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(partial, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise Conflict(f"Somebody else is writing the backup {folder}; wait until they are done.") from error
        yield partial
    finally:
        os.close(descriptor)

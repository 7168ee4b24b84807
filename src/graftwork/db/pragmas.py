"""Pragmas: how every SQLite connection of ours is set up."""

from __future__ import annotations

import sqlite3
import time

RETRY_S = 0.005


def prepare_connection(connection: sqlite3.Connection, busy_timeout_s: float) -> None:
    """Autocommit mode (we begin transactions ourselves), foreign keys, full durability, a patient lock."""
    connection.isolation_level = None
    connection.execute(f"PRAGMA busy_timeout = {int(busy_timeout_s * 1000)}")
    connection.execute("PRAGMA foreign_keys = ON")
    # FULL, not NORMAL: a push that was answered must survive a power failure.
    connection.execute("PRAGMA synchronous = FULL")


def use_write_ahead_log(connection: sqlite3.Connection, busy_timeout_s: float) -> None:
    """Switch the file to write-ahead logging, once in its life.

    NOTE: two processes that make the switch at once would deadlock, so SQLite answers "busy" at once, without
    the busy timeout: hence the loop.
    """
    deadline = time.monotonic() + busy_timeout_s
    while True:
        try:
            if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
                connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as exc:
            if exc.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(RETRY_S)

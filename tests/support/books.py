"""Books: records on a database, with a clock that stands still, and short ways to write them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from graftwork.access.clock import timestamp
from graftwork.db import Database
from graftwork.traffic.records.entry import Entries, Entry
from graftwork.traffic.records.feedback import Feedbacks
from graftwork.traffic.records.record import Record
from graftwork.traffic.records.recording import Recordings
from graftwork.traffic.records.records import Records
from graftwork.traffic.records.usage import UsageReport
from graftwork.traffic.records.vault import Vault

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


class Books:
    """What a test works with; request ids are numbers."""

    def __init__(self, database: Database, vault: Vault) -> None:
        self.database, self.vault = database, vault
        self.now = NOW
        self.records = Records(database, vault, lambda: self.now)
        self.recordings = Recordings(database, can_seal=True, clock=lambda: self.now)
        self.feedback = Feedbacks(database, lambda: self.now)
        self.usage = UsageReport(database)
        self.entries = Entries(database, vault, lambda: self.now)

    def record(self, number: int, **more: Any) -> Record:
        """`days_ago` and `tenant`, and any field of a record."""
        at = timestamp(NOW - timedelta(days=more.pop("days_ago", 0)) + timedelta(microseconds=number))
        usual: dict[str, Any] = {
            "tenant": "local",
            "outcome": "ok",
            "adapter": "tone",
            "route": "tone",
            "arm": "production",
        }
        facts: dict[str, Any] = {"position": 0, "door": "/v1/x", "principal": "me", "latency_s": 0.5, "status": 200}
        return Record(**usual | facts | {"request_id": f"r{number}", "at": at, "prompt_tokens": 3} | more)

    def write(self, *records: Record, **said: Any) -> None:
        self.entries.write([Entry(record, **said) for record in records])

"""Bookkeeping: what records answers and what reads the records, built once for a server."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import version

from graftwork.artifacts.keyring import Keyring
from graftwork.db import Database
from graftwork.gateway.recording import Recorder
from graftwork.settings import Settings
from graftwork.telemetry import Telemetry
from graftwork.traffic.records.entry import Entries
from graftwork.traffic.records.feedback import Feedbacks
from graftwork.traffic.records.recording import Recordings
from graftwork.traffic.records.records import Records
from graftwork.traffic.records.usage import UsageReport
from graftwork.traffic.records.vault import Vault
from graftwork.traffic.shadows.diffs import Diffs
from graftwork.version import __version__


@dataclass(frozen=True)
class Bookkeeping:
    """What the doors work with."""

    recorder: Recorder
    records: Records
    recordings: Recordings
    feedback: Feedbacks
    usage: UsageReport
    diffs: Diffs

    @classmethod
    def of(cls, settings: Settings, base: str, database: Database, telemetry: Telemetry) -> Bookkeeping:
        """Raises InvalidRequest where there should be a keyring and is none."""
        path = settings.artifacts_keyring
        vault = Vault(Keyring.read(path) if path is not None else None)
        records = Records(database, vault)
        recorder = Recorder(
            Entries(database, vault),
            records,
            telemetry,
            mode=settings.record_mode,
            base=base,
            engine=f"graftwork/{__version__} torch/{version('torch')} {settings.dtype}",
        )
        recordings = Recordings(database, can_seal=vault.can_seal)
        return cls(recorder, records, recordings, Feedbacks(database), UsageReport(database), Diffs(database, vault))

"""VersionFiles: the verified files of a version, for whoever serves it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from graftwork.artifacts.working_copy import WorkingCopies
from graftwork.registry.snapshot import SnapshotReader


@dataclass(frozen=True)
class VersionFiles:
    """Finds a version in the newest snapshot and unpacks its bundle; blocking, never called in a step loop."""

    snapshots: SnapshotReader
    copies: WorkingCopies

    def folder(self, tenant: str, digest: str) -> Path:
        """The folder with the version's files, every byte checked.

        Raises:
            NotFound: this tenant has no such version.
            Damaged: stored bytes are missing or wrong.
        """
        version = self.snapshots.current().with_digest(tenant, digest)
        return self.copies.materialise(tenant, version.manifest)

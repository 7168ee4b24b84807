"""VersionFiles: the verified files of a version, for whoever serves it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from graftwork.artifacts.working_copy import WorkingCopies
from graftwork.registry.snapshot import SnapshotReader


@dataclass(frozen=True)
class VersionFiles:
    """Finds a version in the newest snapshot and unpacks its bundle; blocking, never called in a step loop."""

    snapshots: SnapshotReader
    copies: WorkingCopies

    @contextmanager
    def files(self, tenant: str, digest: str) -> Iterator[Path]:
        """The folder with the version's files, every byte checked, there until the block ends.

        Raises:
            NotFound: this tenant has no such version.
            Damaged: stored bytes are missing or wrong.
            Unavailable: the disk or the store does not answer.
        """
        version = self.snapshots.current().with_digest(tenant, digest)
        with self.copies.lease(tenant, version.manifest) as folder:
            yield folder

    def wanted(self, tenant: str, digest: str) -> bool:
        """Whether the tenant has a version with this digest that its policy lets serve."""
        return any(not version.forbidden for version in self.snapshots.current().all_with_digest(tenant, digest))

    def remove(self, tenant: str, digest: str) -> None:
        """Take the working copy away, unless somebody reads it; the next load makes it again."""
        self.copies.remove(tenant, digest)

"""Yard: a registry with a store, from bytes that are pushed to bytes that are collected."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from graftwork.access.clock import Clock, utc_now
from graftwork.access.events import verify_chain
from graftwork.artifacts.bundle import Manifest
from graftwork.artifacts.stores import BlobStore, open_store
from graftwork.artifacts.uploads import Uploads
from graftwork.artifacts.working_copy import WorkingCopies
from graftwork.engine.form_files import FormFiles
from graftwork.errors import Damaged
from graftwork.registry.push import PushService
from graftwork.registry.retention.collector import Collected, Collector
from graftwork.registry.retention.deletion import Deletions
from graftwork.registry.retention.holds import Holds
from graftwork.registry.retention.rules import Retention
from graftwork.registry.retention.sweep import Bounds
from graftwork.registry.versions import Version
from support.desk import Desk
from support.pushes import IDENTITY, FakeAccount, digest_of, manifest_of, outline

#: Nothing is too young.
AT_ONCE = Bounds(older_than_s=0, quarantine_s=0)


@dataclass
class Yard:
    """Everything of one server but its engine, in a folder."""

    desk: Desk
    root: Path
    clock: Clock = utc_now
    store_url: str = ""

    def __post_init__(self) -> None:
        self.store_url = self.store_url or (self.root / "artifacts").as_uri()
        self.store: BlobStore = open_store(self.store_url)
        self.copies = WorkingCopies(self.root / "bundles", self.store)
        self.uploads = Uploads(self.root / "uploads")
        self.holds = Holds(self.desk.database, self.desk.clock)
        self.retention = Retention(self.desk.database, self.desk.clock)
        self.deletions = Deletions(self.desk.database, self.desk.clock)

    @property
    def collector(self) -> Collector:
        tiers: dict[Any, Any] = {"copy": self.copies, "form": FormFiles(self.root / "forms")}
        return Collector(self.desk.database, self.store, self.uploads, tiers, self.clock)

    def push(self, name: str, weights: bytes, *, semver: str | None = None, **metadata: Any) -> Version:
        manifest = self.upload(weights)
        service = PushService(
            self.desk.registry,
            self.store,
            self.copies,
            outline,
            lambda _: FakeAccount(),
            identity_of=lambda _: IDENTITY,
        )
        return service.push("local", name, manifest, semver=semver, metadata=metadata, actor="me").version

    def upload(self, weights: bytes) -> Manifest:
        files = {"adapter_config.json": b"{}", "adapter_model.safetensors": weights}
        for data in files.values():
            self.store.put("local", digest_of(data), [data])
        return manifest_of(files)

    def delete(self, reference: str, reason: str | None = None) -> Version:
        return self.deletions.delete("local", reference, actor="me", reason=reason)

    def collect(self, bounds: Bounds = AT_ONCE) -> Collected:
        return self.collector.collect("local", bounds, actor="me")

    def look(self, bounds: Bounds = AT_ONCE) -> Collected:
        return self.collector.look("local", bounds)

    def files(self, of: bytes) -> list[str]:
        """Where under the root there are files with these bytes."""
        found = [path for path in self.root.rglob("*") if path.is_file() and path.read_bytes() == of]
        return sorted(path.relative_to(self.root).parts[0] for path in found)

    def spoil(self, weights: bytes) -> bytes:
        """Damage the stored blob with these bytes, have it set aside, and return what lies in quarantine."""
        digest, damaged = digest_of(weights), weights[:-1] + b"!"
        (path,) = (self.root / "artifacts").glob(f"local/sha256/*/{digest.removeprefix('sha256:')}")
        path.write_bytes(damaged)
        self.store.set_aside("local", digest)
        return damaged

    def check(self) -> None:
        """Every version that is there is whole, and the log holds."""
        with self.desk.database.reading() as tx:
            verify_chain(tx)
        for adapter in self.desk.registry.list_adapters("local").items:
            for version in self.desk.registry.list_versions("local", adapter.name):
                for file in version.manifest.files:
                    try:
                        assert sum(map(len, self.store.open("local", file.digest))) == file.size
                    except Damaged as error:
                        raise AssertionError(f"{version.label} has lost {file.path}") from error

"""WorkingCopies: bundles unpacked into folders, verified, whole or not there at all."""

from __future__ import annotations

import os
import stat
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from graftwork.access.tenants import check_tenant
from graftwork.artifacts.bundle import Manifest
from graftwork.artifacts.digest import digest_named, digest_of_file, hex_of
from graftwork.artifacts.disk_budget import DiskBudget, Kept
from graftwork.artifacts.partial import PARTIAL, partial_folder, sweep
from graftwork.artifacts.stored import Stored
from graftwork.artifacts.stores import BlobStore
from graftwork.errors import Damaged, Unavailable

#: What copies may take where nobody says, in bytes.
MAX_BYTES = 8 << 30


class WorkingCopies:
    """One folder per tenant and manifest digest: `<root>/<tenant>/<hex>`. Safe to delete while nobody serves.

    Many threads and processes may share a root. A copy lies under its tenant, as its blobs do, so that
    knowing a digest gives nobody another's bytes. When copies take more than `max_bytes`, those leave that were not
    used for longest, of the tenant that holds most, but none that somebody in this process has leased. (Where another
    process takes one away, whoever reads it meets an OSError, and reads again.)
    """

    def __init__(self, root: Path, store: BlobStore, max_bytes: int = MAX_BYTES) -> None:
        self._root = root
        self._store = store
        self._lock = threading.Lock()
        self._leases: Counter[Path] = Counter()
        self._budget = DiskBudget(max_bytes, self._found, self._evict)
        sweep(root)

    def materialise(self, tenant: str, manifest: Manifest) -> Path:
        """The folder with exactly the manifest's files, every byte of them checked in this call.

        A copy that is there and whole is used again; one that was changed on disk is made anew.

        Raises:
            Damaged: a blob is missing or its bytes are wrong; nothing is left behind, and the call works once
                the blob was uploaded again.
            Unavailable: the folder cannot be written.
        """
        folder = self._folder(tenant, manifest)
        if _holds(folder, manifest):
            with suppress(OSError):  # another user's; then it counts as old
                os.utime(folder)
            return folder
        try:
            self._build(tenant, manifest, folder)
        except OSError as exc:
            raise Unavailable(f"The working copy {folder} cannot be written: {exc.strerror}.") from exc
        self._budget.wrote(manifest.bytes)
        return folder

    @contextmanager
    def lease(self, tenant: str, manifest: Manifest) -> Iterator[Path]:
        """The folder as `materialise` gives it; it does not leave before the block ends."""
        folder = self._folder(tenant, manifest)
        with self._lock:
            self._leases[folder] += 1
        try:
            yield self.materialise(tenant, manifest)
        finally:
            with self._lock:
                self._give_back(folder)
            self._budget.let_go()

    @contextmanager
    def trial(self, tenant: str, manifest: Manifest, *, keep: Callable[[], bool]) -> Iterator[Path]:
        """A copy to judge: when the block raises, the copy goes again, unless `keep()` says that it is needed.

        Of several trials of one copy in this process, only the one that ends last removes it. Raises as
        `materialise`.
        """
        folder, failed = self._folder(tenant, manifest), True
        with self._lock:
            self._leases[folder] += 1
        try:
            yield self.materialise(tenant, manifest)
            failed = False
        finally:
            with self._lock:  # also while it is removed, so that no new trial finds half of it
                if self._give_back(folder) and failed and not keep():
                    self._remove(folder)
            self._budget.let_go()

    def find(self, tenant: str, digest: str) -> Kept | None:
        """The copy of a version; None where there is none."""
        return _kept(self._root / check_tenant(tenant) / hex_of(digest))

    def held(self, tenant: str) -> Iterator[Stored]:
        """Every copy of the tenant's, by the digest of its version."""
        for folder in (self._root / check_tenant(tenant)).glob("*"):
            digest = digest_named(folder.name)
            if digest is not None and (kept := _kept(folder)) is not None:
                yield Stored(digest, kept.bytes, kept.used_s)

    def remove(self, tenant: str, digest: str) -> bool:
        """Take a copy away; False, and no change, while somebody has leased it."""
        gone = self._evict(self._root / check_tenant(tenant) / hex_of(digest))
        self._budget.took()
        return gone

    @property
    def used_bytes(self) -> int:
        """Bytes of all copies, as far as is known without looking each time."""
        return self._budget.used

    def check(self) -> None:
        """Every lease is of a copy that is there or being made, and none is left over; only while nothing loads."""
        with self._lock:
            assert not self._leases, f"leases are left over: {self._leases}"
            assert not [*self._root.glob(f"{PARTIAL}/*")], "something half written is left over"

    def _folder(self, tenant: str, manifest: Manifest) -> Path:
        return self._root / check_tenant(tenant) / hex_of(manifest.digest())

    def _give_back(self, folder: Path) -> bool:
        """End one lease; whether it was the last."""
        self._leases[folder] -= 1
        if self._leases[folder]:
            return False
        del self._leases[folder]
        return True

    def _found(self) -> Iterator[Kept]:
        for folder in self._root.glob("[!.]*/*"):
            if (kept := _kept(folder)) is not None:
                yield kept

    def _evict(self, folder: Path) -> bool:
        with self._lock:
            if folder in self._leases:
                return False
            self._remove(folder)
            return True

    def _remove(self, folder: Path) -> None:
        with suppress(OSError), self._scratch() as scratch:
            folder.rename(scratch / "stale")

    @contextmanager
    def _scratch(self) -> Iterator[Path]:
        with tempfile.TemporaryDirectory(dir=partial_folder(self._root), ignore_cleanup_errors=True) as scratch:
            yield Path(scratch)

    def _build(self, tenant: str, manifest: Manifest, folder: Path) -> None:
        with self._scratch() as scratch:
            fresh, stale = scratch / "fresh", scratch / "stale"
            self._unpack(tenant, manifest, fresh)
            folder.parent.mkdir(parents=True, exist_ok=True)
            if not _moved(fresh, folder) and not _holds(folder, manifest):
                with suppress(FileNotFoundError):  # another process moved it aside at the same moment
                    folder.rename(stale)
                if not _moved(fresh, folder) and not _holds(folder, manifest):
                    raise Damaged(f"The working copy {folder} keeps changing while it is made; delete that folder.")

    def _unpack(self, tenant: str, manifest: Manifest, folder: Path) -> None:
        written: dict[str, Path] = {}
        for file in manifest.files:
            path = folder / file.path
            path.parent.mkdir(parents=True, exist_ok=True)
            twin = written.setdefault(file.digest, path)
            if twin is path or not _linked(path, twin):
                with path.open("xb") as out:
                    out.writelines(self._store.open(tenant, file.digest))
            if (size := path.stat().st_size) != file.size:
                raise Damaged(f"{file.path} has {size} bytes, not {file.size} as its manifest says.")
            path.chmod(0o444)


def _kept(folder: Path) -> Kept | None:
    """A copy with the bytes of its files, each counted once however many names it has; what a link leads to is none."""
    try:
        here = folder.lstat()
        found = [path.lstat() for path in folder.rglob("*")]
    except OSError:  # another process removed it
        return None
    if not stat.S_ISDIR(here.st_mode):
        return None
    sizes = {one.st_ino: one.st_size for one in found if stat.S_ISREG(one.st_mode)}
    return Kept(folder.parent.name, folder, sum(sizes.values()), here.st_mtime)


def _linked(path: Path, twin: Path) -> bool:
    """Give `twin` a second name, so that equal bytes take their room once; not every file system can."""
    try:
        path.hardlink_to(twin)
    except OSError:
        return False
    return True


def _moved(fresh: Path, folder: Path) -> bool:
    """Rename, which for folders succeeds only where nothing (or an empty folder) lies."""
    try:
        fresh.rename(folder)
    except OSError:
        if not os.path.lexists(folder):
            raise
        return False
    return True


def _holds(folder: Path, manifest: Manifest) -> bool:
    """Whether the folder has exactly these files with exactly these bytes."""
    if not folder.is_dir() or folder.is_symlink():
        return False
    found = {
        path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir() or path.is_symlink()
    }
    if found != {file.path for file in manifest.files}:
        return False
    return all(_same(folder / file.path, file.size, file.digest) for file in manifest.files)


def _same(path: Path, size: int, digest: str) -> bool:
    try:
        return not path.is_symlink() and path.stat().st_size == size and digest_of_file(path) == digest
    except OSError:
        return False

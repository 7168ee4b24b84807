"""Shelf: a real registry on a real store, where versions of a soak come from, with faults on the way from there."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from graftwork.access.tenants import LOCAL
from graftwork.adapters.account import account_folder
from graftwork.adapters.outline import Outline
from graftwork.artifacts.bundle import BundleFile, Manifest
from graftwork.artifacts.digest import hex_of
from graftwork.artifacts.partial import PARTIAL
from graftwork.artifacts.stores.local import LocalStore
from graftwork.artifacts.working_copy import WorkingCopies
from graftwork.db import Database
from graftwork.engine.request import AdapterHandle
from graftwork.registry.push import PushService
from graftwork.registry.registry import Registry
from graftwork.registry.snapshot import SnapshotReader
from graftwork.registry.version_files import VersionFiles
from graftwork.settings import Settings
from soak.drawer import Drawn

#: Of a form on disk; which version it is of stands there.
_HEAD_BYTES = 4096


class Shelf:
    """Pushes adapters and gives their files to the engine; those that no registry takes are read as they lie.

    Faults are of the file with an adapter's weights: adapters that share it share its faults.
    """

    def __init__(self, settings: Settings, outline: Outline, drawer: Mapping[str, Drawn]) -> None:
        self._drawer, self._settings = drawer, settings
        self.database = Database(settings.database)
        self._artifacts = settings.home / "artifacts"
        self._store = LocalStore(self._artifacts)
        copies = WorkingCopies(settings.bundles, self._store, settings.bundle_cache_bytes)
        account_of = partial(account_folder, outline=outline, max_rank=settings.max_rank)
        self._pushes = PushService(Registry(self.database), self._store, copies, lambda: outline, account_of)
        self._files = VersionFiles(SnapshotReader(self.database), copies)
        self._weights = {name: _weights(one.folder) for name, one in drawer.items()}
        self._names: dict[str, str] = {}  # of the adapter with this digest
        self._strikes: dict[str, Callable[[], object]] = {}
        self._open: Counter[str] = Counter()
        self._ended: dict[str, float] = {}

    @property
    def files_in_use(self) -> list[str]:
        """Files below the home, beside the database, that are open, mapped, or not whole yet."""
        opened = [str(found.readlink()) for found in Path("/proc/self/fd").iterdir() if found.is_symlink()]
        mapped = [line.split(maxsplit=5)[-1] for line in Path("/proc/self/maps").read_text().splitlines()]
        used = [path for path in (*opened, *mapped) if path.startswith(str(self._settings.home))]
        roots = (self._artifacts, self._settings.bundles, self._settings.forms)
        partial = [str(path) for root in roots for path in (root / PARTIAL).glob("*")]
        return [path for path in used if "graftwork.db" not in path] + partial

    def push(self, name: str, edition: int = 0) -> AdapterHandle:
        """Register an adapter; another edition has the same weights and other bytes beside them."""
        with TemporaryDirectory() as scratch:
            folder = shutil.copytree(self._drawer[name].folder, Path(scratch) / name)
            (folder / "README.md").write_text(f"edition {edition}")
            manifest = Manifest.of_folder(folder)
            for file in manifest.files:
                self._store.put(LOCAL, file.digest, [(folder / file.path).read_bytes()])
        version = self._pushes.push(LOCAL, name, manifest, actor=LOCAL).version
        self._names[version.digest] = name
        return AdapterHandle(version.digest, LOCAL, version.label)

    @contextmanager
    def files(self, tenant: str, digest: str) -> Iterator[Path]:
        """As `remove`, the engine's `AdapterSource`."""
        name = self._names.get(digest, digest)
        if (strike := self._strikes.get(self._weights[name].digest)) is not None:
            strike()
        if digest not in self._names:
            yield self._drawer[name].folder
            return
        with self._files.files(tenant, digest) as folder:
            yield folder

    def wanted(self, tenant: str, digest: str) -> bool:
        return digest not in self._names or self._files.wanted(tenant, digest)

    def remove(self, tenant: str, digest: str) -> None:
        self._files.remove(tenant, digest)

    # -- faults ------------------------------------------------------------------------------------------------------

    @contextmanager
    def fault(self, name: str, strike: Callable[[], object] | None = None) -> Iterator[None]:
        """While it lasts, requests for the adapter may fail; `strike` is called by whoever reads its files."""
        key = self._weights[name].digest
        if strike is not None:
            self._strikes[key] = strike
        self._open[key] += 1
        try:
            yield
        finally:
            self._strikes.pop(key, None)
            self._open[key] -= 1
            self._ended[key] = time.monotonic()

    def was_at_fault(self, name: str, since: float) -> bool:
        """Whether a fault of the adapter lasted at any moment since then (`time.monotonic`)."""
        key = self._weights[name].digest
        return bool(self._open[key]) or self._ended.get(key, 0.0) >= since

    @contextmanager
    def damaged(self, name: str) -> Iterator[None]:
        """An adapter whose weights are not what was stored, there and wherever else they lie; mended afterwards."""
        weights = self._weights[name]
        with self.fault(name):
            _replace(self._blob(weights.digest), b"not what was stored")
            for digest, owner in list(self._names.items()):
                if owner == name:
                    self.remove(LOCAL, digest)  # not from whoever reads it
                    self._lose_form(digest)
            try:
                yield
            finally:
                self._store.put(LOCAL, weights.digest, [(self._drawer[name].folder / weights.path).read_bytes()])

    def lose_forms(self) -> None:
        """Nothing is kept ready beside the files any more."""
        for form in self._forms():
            form.unlink(missing_ok=True)

    def damage_form(self, which: int) -> None:
        """One bit of one form on disk is another."""
        if forms := self._forms():
            form = forms[which % len(forms)]
            with suppress(FileNotFoundError):  # no longer there
                data = bytearray(form.read_bytes())
                data[which % len(data)] ^= 0x10
                _replace(form, bytes(data))

    def _lose_form(self, digest: str) -> None:
        for form in self._forms():
            with suppress(FileNotFoundError), form.open("rb") as file:
                if digest.encode() in file.read(_HEAD_BYTES):
                    form.unlink()

    def _forms(self) -> list[Path]:
        return sorted(self._settings.forms.glob("*/*.form"))

    def _blob(self, digest: str) -> Path:
        return self._artifacts / LOCAL / "sha256" / hex_of(digest)[:2] / hex_of(digest)


def _weights(folder: Path) -> BundleFile:
    """The largest file that is not a text."""
    files = [file for file in Manifest.of_folder(folder).files if Path(file.path).suffix not in (".json", ".md")]
    return max(files, key=lambda file: file.size)


def _replace(path: Path, data: bytes) -> None:
    """By another file, so that whoever has the old one open or mapped keeps it."""
    fresh = path.with_name(f"{path.name}.fresh")
    fresh.write_bytes(data)
    fresh.replace(path)

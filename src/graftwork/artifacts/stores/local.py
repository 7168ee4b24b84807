"""LocalStore: blobs as files, `<root>/<tenant>/sha256/ab/<hex>`."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote, urlsplit

from graftwork.access.tenants import check_tenant
from graftwork.artifacts.digest import CHUNK_BYTES, arrives, check_digest, digest_named, hex_of, verified
from graftwork.artifacts.partial import partial_folder, sweep
from graftwork.artifacts.stored import Stored
from graftwork.artifacts.stores.form import FOLDERS, NOTE, PLAIN, QUARANTINE, Form
from graftwork.errors import Damaged, InvalidRequest, Unavailable

#: What says that there is no such file, or something else in its place; any other error is of the moment, not of it.
_NO_FILE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EISDIR})


class LocalStore:
    """Keeps each blob in one file, written aside, flushed to the disk and then renamed into place.

    NOTE: `put` replaces rather than skips a blob that is there: the bytes were just verified, so they are the
    same, and a damaged file is repaired. Readers that have the old file open keep it.
    """

    def __init__(self, root: Path, form: Form = PLAIN) -> None:
        self._root = root
        self._form = form
        sweep(root)

    @classmethod
    def at(cls, url: str, form: Form) -> LocalStore:
        """The store in the folder of `file:///folder`."""
        parts = urlsplit(url)
        if parts.netloc not in ("", "localhost") or len(parts.path) < 2:
            raise InvalidRequest("The artifacts URL of a folder is file:///folder.", field="artifacts_url")
        return cls(Path(unquote(parts.path)), form)

    def put(self, tenant: str, digest: str, chunks: Iterable[bytes]) -> int:
        path = self._path(tenant, digest)
        blob = verified(chunks, digest, what=f"Upload of {digest}")
        return self._form.plain_size(self._write(path, self._form.stored(tenant, digest, blob)))

    def has(self, tenant: str, digest: str) -> int | None:
        path = self._path(tenant, digest)
        with _translated(path, "read"):
            try:
                return self._form.plain_size(path.lstat().st_size)
            except FileNotFoundError:
                return None

    def open(self, tenant: str, digest: str) -> Iterator[bytes]:
        return self._read(self._path(tenant, digest), tenant, digest)

    def _read(self, path: Path, tenant: str, digest: str) -> Iterator[bytes]:
        blob = self._form.plain(tenant, digest, _chunks(path, digest))
        return verified(blob, digest, what=f"Blob {digest} of {tenant}")

    def set_aside(self, tenant: str, digest: str) -> None:
        path = self._path(tenant, digest)
        folder = self._root / tenant / QUARANTINE
        with _translated(path, "written"), suppress(FileNotFoundError):
            folder.mkdir(parents=True, exist_ok=True)
            taken = path.replace(folder / f"{path.name}-{secrets.token_hex(4)}")
            back = True
            try:  # it is judged where nobody can put another in its place
                back = arrives(self._read(taken, tenant, digest))
            finally:
                taken.replace(path if back else folder / path.name)

    def list(self, tenant: str, *, aside: bool = False) -> Iterator[Stored]:
        own = self._root / check_tenant(tenant)
        if aside:
            return self._files(own / QUARANTINE, "*")
        return chain.from_iterable(self._files(own / folder, "*/*") for folder in FOLDERS)

    def delete(self, tenant: str, digest: str, *, aside: bool = False) -> None:
        name, own = hex_of(check_digest(digest)), self._root / check_tenant(tenant)
        places = [own / QUARANTINE / name] if aside else [own / folder / name[:2] / name for folder in FOLDERS]
        for path in places:
            with _translated(path, "written"):
                path.unlink(missing_ok=True)

    def note(self, tenant: str) -> str | None:
        path = self._root / check_tenant(tenant) / NOTE
        with _translated(path, "read"):
            try:
                return path.read_text(encoding="utf-8", errors="replace")
            except FileNotFoundError:
                return None

    def set_note(self, tenant: str, text: str) -> None:
        self._write(self._root / check_tenant(tenant) / NOTE, [text.encode()])

    def _write(self, path: Path, chunks: Iterable[bytes]) -> int:
        with _translated(path, "written"), self._partial() as (partial, file):
            size = sum(map(file.write, chunks))
            file.flush()
            os.fsync(file.fileno())
            path.parent.mkdir(parents=True, exist_ok=True)
            partial.replace(path)
            _flush_folder(path.parent)
        return size

    def _path(self, tenant: str, digest: str) -> Path:
        name = hex_of(check_digest(digest))
        return self._root / check_tenant(tenant) / self._form.folder / name[:2] / name

    @staticmethod
    def _files(folder: Path, pattern: str) -> Iterator[Stored]:
        with _translated(folder, "read"):
            for path in folder.glob(pattern):
                if (digest := digest_named(path.name)) is not None:
                    with suppress(FileNotFoundError):  # it went meanwhile
                        found = path.lstat()
                        yield Stored(digest, found.st_size, found.st_mtime)

    @contextmanager
    def _partial(self) -> Iterator[tuple[Path, BinaryIO]]:
        path = partial_folder(self._root) / secrets.token_hex(16)
        try:
            with path.open("xb") as file:
                yield path, file
        finally:
            path.unlink(missing_ok=True)


def _chunks(path: Path, digest: str) -> Iterator[bytes]:
    with _translated(path, "read"):
        try:
            # NOFOLLOW: a link that somebody put into the store never leads a reader out of it.
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
            with os.fdopen(descriptor, "rb") as file:
                while chunk := file.read(CHUNK_BYTES):
                    yield chunk
        except OSError as exc:
            if exc.errno not in _NO_FILE:
                raise
            raise Damaged(f"The blob {digest} cannot be read ({exc.strerror}). Upload its file again.") from exc


def _flush_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _translated(path: Path, how: str) -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        raise Unavailable(f"The artifact store cannot be {how} at {path.parent}: {exc.strerror}.") from exc

"""Uploads: what has come so far of large blobs; each waits, under its digest, for the rest."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from graftwork.access.tenants import check_tenant
from graftwork.artifacts.digest import CHUNK_BYTES, check_digest, digest_named, hex_of
from graftwork.artifacts.partial import PARTIAL, partial_folder, sweep
from graftwork.artifacts.stored import Stored
from graftwork.errors import Conflict, Unavailable


class Uploads:
    """One file per tenant and digest below `root`, written by one at a time, also among processes.

    A file is no more than a beginning that somebody claims: only the store, which checks the digest, makes a blob of
    it. One that nobody has written to for a day is swept when the next upload begins.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        sweep(root)

    def offset(self, tenant: str, digest: str) -> int:
        """How many bytes have come; 0 where nothing has."""
        path = self._path(tenant, digest)
        try:
            return path.stat().st_size
        except FileNotFoundError:
            return 0
        except OSError as exc:
            raise Unavailable(f"The upload cannot be looked at in {path.parent}: {exc.strerror}.") from exc

    @contextmanager
    def continued(self, tenant: str, digest: str, offset: int) -> Iterator[BinaryIO]:
        """The file, open for reading and writing, at its end, which is at `offset`; nobody else has it meanwhile.

        Raises:
            Conflict: it ends elsewhere, or somebody else is writing it.
            Unavailable: it cannot be written.
        """
        path = self._path(tenant, digest)
        try:
            partial_folder(self._root)
            if not offset:
                sweep(self._root)
            file = _locked(path)
        except BlockingIOError as exc:
            raise Conflict(f"Somebody else is uploading {digest}; wait until they are done.") from exc
        except OSError as exc:
            raise Unavailable(f"The upload cannot be written at {path.parent}: {exc.strerror}.") from exc
        with file:
            end = file.seek(0, os.SEEK_END)
            if end != offset:
                raise Conflict(f"{end} bytes of {digest} have come, not {offset}; go on from there.")
            yield file

    def drop(self, tenant: str, digest: str) -> None:
        """Forget what has come; does nothing where nothing has."""
        path = self._path(tenant, digest)
        try:
            path.unlink(missing_ok=True)
        except OSError as exc:
            raise Unavailable(f"The upload cannot be removed from {path.parent}: {exc.strerror}.") from exc

    def held(self, tenant: str) -> Iterator[Stored]:
        """Every beginning of the tenant's, whoever may still be writing it."""
        for path in (self._root / PARTIAL).glob(f"{check_tenant(tenant)}.*"):
            digest = digest_named(path.name.removeprefix(f"{tenant}."))
            with suppress(FileNotFoundError):  # it went meanwhile
                if digest is not None:
                    found = path.lstat()
                    yield Stored(digest, found.st_size, found.st_mtime)

    def remove(self, tenant: str, digest: str) -> bool:
        """Forget a beginning; False, and no change, while somebody is writing it."""
        path = self._path(tenant, digest)
        try:
            with _locked(path):
                path.unlink()
        except OSError:  # in use, or not ours to remove
            return False
        return True

    def _path(self, tenant: str, digest: str) -> Path:
        check_tenant(tenant)
        return self._root / PARTIAL / f"{tenant}.{hex_of(check_digest(digest))}"


def chunks_of(file: BinaryIO) -> Iterator[bytes]:
    """All of an upload's bytes."""
    file.seek(0)
    while chunk := file.read(CHUNK_BYTES):
        yield chunk


def _locked(path: Path) -> BinaryIO:
    while True:
        # NOFOLLOW: a link that somebody put there never leads a writer out of the folder.
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        file = os.fdopen(descriptor, "r+b")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # a process that dies lets go
            if os.fstat(descriptor).st_nlink:
                return file
        except BaseException:
            file.close()
            raise
        file.close()  # it was finished and dropped between opening and locking: begin another

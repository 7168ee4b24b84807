"""MemoryStore: blobs in a dict, for tests and trials; gone with the process."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

from graftwork.access.tenants import check_tenant
from graftwork.artifacts.digest import arrives, check_digest, verified
from graftwork.artifacts.stored import Stored
from graftwork.artifacts.stores.form import Form
from graftwork.errors import Damaged


class MemoryStore:
    """A `BlobStore`; `blobs` is public so that a test can damage one."""

    def __init__(self) -> None:
        self.blobs: dict[tuple[str, str], bytes] = {}
        self.aside: dict[tuple[str, str], bytes] = {}
        self._notes: dict[str, str] = {}
        self._written: dict[tuple[str, str], float] = {}

    @classmethod
    def at(cls, _url: str, _form: Form) -> MemoryStore:
        return cls()

    def put(self, tenant: str, digest: str, chunks: Iterable[bytes]) -> int:
        key = _key(tenant, digest)
        data = b"".join(verified(chunks, digest, what=f"Upload of {digest}"))
        self.blobs[key], self._written[key] = data, time.time()
        return len(data)

    def has(self, tenant: str, digest: str) -> int | None:
        data = self.blobs.get(_key(tenant, digest))
        return None if data is None else len(data)

    def open(self, tenant: str, digest: str) -> Iterator[bytes]:
        return verified(self._chunks(_key(tenant, digest)), digest, what=f"Blob {digest} of {tenant}")

    def set_aside(self, tenant: str, digest: str) -> None:
        key = _key(tenant, digest)
        if key in self.blobs and not arrives(self.open(tenant, digest)):
            self.aside[key] = self.blobs.pop(key)

    def list(self, tenant: str, *, aside: bool = False) -> Iterator[Stored]:
        held, owner = self._held(aside), check_tenant(tenant)
        own = [key for key in list(held) if key[0] == owner]
        return iter([Stored(key[1], len(held[key]), self._written.get(key, 0.0)) for key in own])

    def delete(self, tenant: str, digest: str, *, aside: bool = False) -> None:
        self._held(aside).pop(_key(tenant, digest), None)

    def note(self, tenant: str) -> str | None:
        return self._notes.get(check_tenant(tenant))

    def set_note(self, tenant: str, text: str) -> None:
        self._notes[check_tenant(tenant)] = text

    def _held(self, aside: bool) -> dict[tuple[str, str], bytes]:
        return self.aside if aside else self.blobs

    def _chunks(self, key: tuple[str, str]) -> Iterator[bytes]:
        if key not in self.blobs:
            raise Damaged(f"The blob {key[1]} is missing. Upload its file again.")
        yield self.blobs[key]


def _key(tenant: str, digest: str) -> tuple[str, str]:
    return check_tenant(tenant), check_digest(digest)

"""examine: damage is believed when it was read twice, and set aside."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from graftwork.artifacts.examine import examine
from graftwork.artifacts.stores.local import LocalStore
from graftwork.artifacts.stores.memory import MemoryStore
from graftwork.errors import Unavailable

DIGEST = "sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"


class Flaky(MemoryStore):
    """Its first read goes wrong on the way."""

    def _chunks(self, key: tuple[str, str]) -> Iterator[bytes]:
        whole, self.blobs[key] = self.blobs[key], b"noise"
        try:
            yield from super()._chunks(key)
        finally:
            self.blobs[key] = whole
            self.__class__ = MemoryStore  # type: ignore[assignment]


def test_whole_missing_and_damaged() -> None:
    store = MemoryStore()
    assert examine(store, "local", DIGEST) == "missing"
    store.put("local", DIGEST, [b"hello"])
    assert examine(store, "local", DIGEST) == "ok"
    store.blobs["local", DIGEST] = b"hellO"
    assert examine(store, "local", DIGEST) == "damaged"
    assert examine(store, "local", DIGEST) == "missing"
    assert store.aside["local", DIGEST] == b"hellO"


class Repaired(LocalStore):
    """Somebody else repairs a blob between the look that finds it damaged and what follows from it."""

    def set_aside(self, tenant: str, digest: str) -> None:
        self.put(tenant, digest, [b"hello"])
        super().set_aside(tenant, digest)


def test_what_is_repaired_while_it_is_examined_stays(tmp_path: Path) -> None:
    store = Repaired(tmp_path)
    store.put("local", DIGEST, [b"hello"])
    next(tmp_path.glob("local/sha256/2c/*")).write_bytes(b"hellO")
    examine(store, "local", DIGEST)
    assert examine(store, "local", DIGEST) == "ok"
    assert not [*tmp_path.glob("local/quarantine/*")]


def test_what_went_wrong_once_on_the_way_is_not_damage() -> None:
    store = Flaky()
    store.put("local", DIGEST, [b"hello"])
    assert examine(store, "local", DIGEST) == "ok"
    assert store.aside == {}


def test_a_file_that_cannot_be_opened_now_is_not_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = LocalStore(tmp_path)
    store.put("local", DIGEST, [b"hello"])

    def full(*_: object) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with monkeypatch.context() as patch:
        patch.setattr("graftwork.artifacts.stores.local.os.open", full)
        with pytest.raises(Unavailable, match=r"cannot be read at .*Too many open files"):
            examine(store, "local", DIGEST)
    assert examine(store, "local", DIGEST) == "ok"

"""examine: damage is believed when it was read twice, and set aside."""

from __future__ import annotations

from collections.abc import Iterator

from graftwork.artifacts.examine import examine
from graftwork.artifacts.stores.memory import MemoryStore

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


def test_what_went_wrong_once_on_the_way_is_not_damage() -> None:
    store = Flaky()
    store.put("local", DIGEST, [b"hello"])
    assert examine(store, "local", DIGEST) == "ok"
    assert store.aside == {}

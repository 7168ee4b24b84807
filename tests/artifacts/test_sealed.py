"""Sealed: nothing of a blob can be read or changed in the store, and nothing else is ever taken for it."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graftwork.artifacts.examine import examine
from graftwork.artifacts.keyring import Keyring
from graftwork.artifacts.stores import open_store
from graftwork.artifacts.stores.local import LocalStore
from graftwork.errors import Damaged, InvalidRequest, Unavailable

pytest.importorskip("cryptography", reason="sealing needs cryptography: pip install cryptography")

from graftwork.artifacts.stores.sealed import CHUNK_BYTES, HEAD_BYTES, TAG_BYTES, Sealed

KEYS = {"a": bytes(range(32)), "b": bytes(range(32, 64))}
SEALED = Sealed(Keyring("a", KEYS, {"acme": "b"}))
DIGEST = "sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
SIZES = [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 2 * CHUNK_BYTES, 3 * CHUNK_BYTES - 5]


def sealed(data: bytes, tenant: str = "local", digest: str = DIGEST, form: Sealed = SEALED) -> bytes:
    return b"".join(form.stored(tenant, digest, [data]))


def opened(data: bytes, tenant: str = "local", digest: str = DIGEST, form: Sealed = SEALED) -> bytes:
    return b"".join(form.plain(tenant, digest, [data]))


@pytest.mark.parametrize("size", SIZES)
def test_every_size_comes_back_and_is_told_by_the_stored_size(size: int) -> None:
    data = os.urandom(size)
    stored = sealed(data)
    assert opened(stored) == data
    assert SEALED.plain_size(len(stored)) == size
    pieces = [stored[start : start + 77_777] for start in range(0, len(stored), 77_777)]
    assert b"".join(SEALED.plain("local", DIGEST, pieces)) == data


def test_nothing_of_the_blob_is_in_what_is_stored_and_no_two_are_alike() -> None:
    data = b"secret" * 1000
    first, second = sealed(data), sealed(data)
    assert b"secret" not in first
    assert first[HEAD_BYTES:] != second[HEAD_BYTES:]


@given(st.integers(0, HEAD_BYTES + 5 + TAG_BYTES - 1), st.integers(1, 255))
def test_any_changed_byte_is_noticed(position: int, change: int) -> None:
    stored = bytearray(sealed(b"hello"))
    stored[position] ^= change
    with pytest.raises((Damaged, Unavailable)):  # in the key's id it is a key that nobody has
        opened(bytes(stored))


def test_chunks_that_were_cut_off_moved_or_added_are_noticed() -> None:
    stored = sealed(os.urandom(3 * CHUNK_BYTES))
    head, step = stored[:HEAD_BYTES], CHUNK_BYTES + TAG_BYTES
    one, two, three = (stored[HEAD_BYTES + step * n :][:step] for n in range(3))
    for chunks in ([], [one], [one, two], [two, one, three], [one, three], [one, two, three, three], [one, one, three]):
        with pytest.raises(Damaged):
            opened(head + b"".join(chunks))
    for length in (0, 1, HEAD_BYTES - 1, HEAD_BYTES):
        with pytest.raises(Damaged):
            opened(stored[:length])


def test_a_sealed_blob_opens_in_its_own_place_only() -> None:
    stored = sealed(b"hello")
    for tenant, digest in (("globex", DIGEST), ("local", "sha256:" + "0" * 64)):
        with pytest.raises(Damaged):
            opened(stored, tenant, digest)


def test_a_tenant_may_have_a_key_of_its_own_and_lose_it_alone() -> None:
    ours, theirs = sealed(b"hello"), sealed(b"hello", "acme")
    without = Sealed(Keyring("a", {"a": KEYS["a"]}, {}))
    assert opened(ours, form=without) == b"hello"
    with pytest.raises(Unavailable, match="not in the keyring"):
        opened(theirs, "acme", form=without)


def test_after_a_change_of_keys_old_blobs_open_and_new_ones_have_the_new_key() -> None:
    before = sealed(b"hello")
    rotated = Sealed(Keyring("new", {"old": KEYS["a"], "new": KEYS["b"]}, {}))
    assert opened(before, form=rotated) == b"hello"
    with pytest.raises(Unavailable):
        opened(sealed(b"hello", form=rotated), form=Sealed(Keyring("a", {"a": KEYS["a"]}, {})))


def test_a_store_that_lacks_the_key_is_unavailable_and_not_damaged(tmp_path: Path) -> None:
    LocalStore(tmp_path, SEALED).put("acme", DIGEST, [b"hello"])
    store = LocalStore(tmp_path, Sealed(Keyring("a", {"a": KEYS["a"]}, {})))
    with pytest.raises(Unavailable):
        examine(store, "acme", DIGEST)
    assert examine(LocalStore(tmp_path, SEALED), "acme", DIGEST) == "ok"


def test_sealed_and_plain_blobs_are_never_taken_for_one_another(tmp_path: Path) -> None:
    LocalStore(tmp_path).put("local", DIGEST, [b"hello"])
    store = LocalStore(tmp_path, SEALED)
    assert store.has("local", DIGEST) is None
    store.put("local", DIGEST, [b"hello"])
    assert b"".join(LocalStore(tmp_path).open("local", DIGEST)) == b"hello"
    [plain, hidden] = sorted(path for path in tmp_path.rglob("*") if path.is_file() and path.parent.name == "2c")
    hidden.write_bytes(plain.read_bytes())
    plain.write_bytes(b"hello")
    with pytest.raises(Damaged):
        list(store.open("local", DIGEST))


def test_what_was_plain_before_the_keys_is_listed_and_goes_too(tmp_path: Path) -> None:
    LocalStore(tmp_path).put("local", DIGEST, [b"hello"])
    store = LocalStore(tmp_path, SEALED)
    assert [one.digest for one in store.list("local")] == [DIGEST]
    store.put("local", DIGEST, [b"hello"])
    store.delete("local", DIGEST)
    assert list(store.list("local")) == []
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def keyring(tmp_path: Path, **changes: Any) -> Path:
    keys = {name: base64.b64encode(key).decode() for name, key in KEYS.items()}
    path = tmp_path / "keys.json"
    path.write_text(json.dumps({"current": "a", "keys": keys, "tenants": {"acme": "b"}, **changes}))
    return path


def test_a_keyring_is_read_from_its_file(tmp_path: Path) -> None:
    assert Keyring.read(keyring(tmp_path)) == Keyring("a", KEYS, {"acme": "b"})
    data = os.urandom(100)
    digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
    store = open_store((tmp_path / "artifacts").as_uri(), keyring(tmp_path))
    assert store.put("local", digest, [data]) == 100
    assert data not in next(path for path in (tmp_path / "artifacts").rglob("*") if path.is_file()).read_bytes()


SECRET = base64.b64encode(b"x" * 31).decode()


@pytest.mark.parametrize(
    "changes",
    [
        *({"current": "c"}, {"tenants": {"acme": "c"}}, {"keys": {"a": SECRET}}, {"keys": {"a": "%%%"}}, {"keys": []}),
        *({"tenants": []}, {"more": 1}, {"keys": {"a": 5}}),
    ],
)
def test_a_keyring_that_is_none_is_refused_without_its_keys(tmp_path: Path, changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match="keyring") as caught:
        Keyring.read(keyring(tmp_path, **changes))
    assert SECRET not in caught.value.message
    assert caught.value.field == "artifacts_keyring"


def test_a_file_that_is_missing_or_no_json_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "nowhere", tmp_path):
        with pytest.raises(InvalidRequest, match="cannot be read"):
            Keyring.read(path)
    (tmp_path / "keys.json").write_text(SECRET)
    with pytest.raises(InvalidRequest, match="not JSON") as caught:
        Keyring.read(tmp_path / "keys.json")
    assert SECRET not in caught.value.message


def test_keys_are_not_shown() -> None:
    assert repr(KEYS["a"])[2:10] not in repr(Keyring("a", KEYS, {}))

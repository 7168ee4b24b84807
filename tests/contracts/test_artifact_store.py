"""The contract of a BlobStore, run on every store in the table; those of clouds on real servers."""

from __future__ import annotations

import hashlib
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import obstore
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from graftwork.artifacts.digest import arrives
from graftwork.artifacts.keyring import Keyring
from graftwork.artifacts.stores import STORES, BlobStore
from graftwork.artifacts.stores.form import Form
from graftwork.artifacts.stores.local import LocalStore
from graftwork.artifacts.stores.memory import MemoryStore
from graftwork.artifacts.stores.object import PART_BYTES, ObjectStore
from graftwork.errors import Damaged, InvalidRequest
from support.object_stores import ObjectServer
from support.scale import times

#: Fixtures that make one; `gs` is the same class as `s3` and `az`, and has no server that it could be tested on.
MAKERS = {"az": "azure", "file": "local", "memory": "memory", "s3": "s3"}
#: Stores whose blobs are sealed.
SEALED = {"file-sealed": "sealed_local", "s3-sealed": "sealed_s3"}
OF_HELLO = "sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
OF_NOTHING = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


@pytest.fixture
def local(tmp_path: Path) -> BlobStore:
    return LocalStore(tmp_path / "artifacts")


@pytest.fixture
def memory() -> BlobStore:
    return MemoryStore()


@pytest.fixture
def s3(seaweedfs_server: ObjectServer) -> BlobStore:
    return ObjectStore(seaweedfs_server.url())


@pytest.fixture
def azure(azurite_server: ObjectServer) -> BlobStore:
    return ObjectStore(azurite_server.url())


@pytest.fixture
def sealed() -> Form:
    pytest.importorskip("cryptography", reason="sealing needs cryptography: pip install cryptography")
    from graftwork.artifacts.stores.sealed import Sealed

    return Sealed(Keyring("a", {"a": bytes(32)}, {}))


@pytest.fixture
def sealed_local(tmp_path: Path, sealed: Form) -> BlobStore:
    return LocalStore(tmp_path / "artifacts", sealed)


@pytest.fixture
def sealed_s3(seaweedfs_server: ObjectServer, sealed: Form) -> BlobStore:
    return ObjectStore(seaweedfs_server.url(), sealed)


@pytest.fixture(params=sorted(MAKERS | SEALED))
def store(request: pytest.FixtureRequest) -> BlobStore:
    made: BlobStore = request.getfixturevalue((MAKERS | SEALED)[request.param])
    return made


def put(store: BlobStore, data: bytes, tenant: str = "local") -> str:
    digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
    assert store.put(tenant, digest, [data]) == len(data)
    return digest


def test_every_store_of_the_table_is_held_to_the_contract() -> None:
    assert set(STORES) - set(MAKERS) == {"gs"}
    assert STORES["gs"] == STORES["s3"] == STORES["az"]


def test_a_blob_reads_back_as_it_was_put(store: BlobStore) -> None:
    assert store.put("local", OF_HELLO, [b"he", b"", b"llo"]) == 5
    assert store.has("local", OF_HELLO) == 5
    assert b"".join(store.open("local", OF_HELLO)) == b"hello"


def test_a_blob_of_no_bytes_is_a_blob(store: BlobStore) -> None:
    assert store.put("local", OF_NOTHING, []) == 0
    assert store.has("local", OF_NOTHING) == 0
    assert b"".join(store.open("local", OF_NOTHING)) == b""


@hypothesis_settings(
    max_examples=times(20, 300), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(chunks=st.lists(st.binary(max_size=40), max_size=6))
def test_any_bytes_in_any_chunks_read_back(store: BlobStore, chunks: list[bytes]) -> None:
    data = b"".join(chunks)
    digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
    assert store.put("local", digest, chunks) == len(data)
    assert b"".join(store.open("local", digest)) == data


def test_putting_twice_is_putting_once(store: BlobStore) -> None:
    assert put(store, b"hello") == put(store, b"hello") == OF_HELLO
    assert b"".join(store.open("local", OF_HELLO)) == b"hello"


@pytest.mark.parametrize("chunks", [[], [b"hellO"], [b"hello", b"!"], [b"hell"]])
def test_bytes_that_do_not_match_their_digest_are_not_stored(store: BlobStore, chunks: list[bytes]) -> None:
    with pytest.raises(Damaged):
        store.put("local", OF_HELLO, chunks)
    assert store.has("local", OF_HELLO) is None


def test_wrong_bytes_do_not_harm_a_blob_that_is_there(store: BlobStore) -> None:
    put(store, b"hello")
    with pytest.raises(Damaged):
        store.put("local", OF_HELLO, [b"other"])
    assert b"".join(store.open("local", OF_HELLO)) == b"hello"


def test_an_upload_that_breaks_off_leaves_no_blob(store: BlobStore) -> None:
    def broken() -> Iterator[bytes]:
        yield b"hel"
        raise RuntimeError("the client went away")

    with pytest.raises(RuntimeError):
        store.put("local", OF_HELLO, broken())
    assert store.has("local", OF_HELLO) is None


def test_a_missing_blob_is_damage_when_it_is_read(store: BlobStore) -> None:
    assert store.has("local", OF_HELLO) is None
    with pytest.raises(Damaged, match=OF_HELLO):
        list(store.open("local", OF_HELLO))


def test_a_deleted_blob_is_gone_and_may_be_deleted_again(store: BlobStore) -> None:
    put(store, b"hello")
    store.delete("local", OF_HELLO)
    store.delete("local", OF_HELLO)
    assert store.has("local", OF_HELLO) is None


def test_a_blob_in_many_parts_reads_back(store: BlobStore) -> None:
    data = random.Random(0).randbytes(2 * PART_BYTES + 10)
    digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
    pieces = [data[start : start + 3_000_000] for start in range(0, len(data), 3_000_000)]
    assert store.put("local", digest, pieces) == len(data)
    assert store.has("local", digest) == len(data)
    assert b"".join(store.open("local", digest)) == data


def test_many_parts_that_do_not_match_or_break_off_leave_no_blob(store: BlobStore) -> None:
    def broken() -> Iterator[bytes]:
        yield from [bytes(PART_BYTES)] * 2
        raise RuntimeError("the client went away")

    with pytest.raises(Damaged):
        store.put("local", OF_HELLO, [bytes(PART_BYTES)] * 3)
    with pytest.raises(RuntimeError):
        store.put("local", OF_HELLO, broken())
    assert store.has("local", OF_HELLO) is None


def test_a_damaged_blob_that_was_set_aside_is_there_no_more_and_can_be_put_again(store: BlobStore) -> None:
    store.set_aside("local", OF_HELLO)
    put(store, b"hello")
    damage(store)
    store.set_aside("local", OF_HELLO)
    store.set_aside("local", OF_HELLO)
    assert store.has("local", OF_HELLO) is None
    with pytest.raises(Damaged):
        list(store.open("local", OF_HELLO))
    put(store, b"hello")
    assert b"".join(store.open("local", OF_HELLO)) == b"hello"


def test_the_list_is_of_the_tenants_own_blobs_and_the_quarantine_is_a_list_of_its_own(store: BlobStore) -> None:
    assert list(store.list("local")) == list(store.list("local", aside=True)) == []
    before = time.time()
    wanted = {put(store, data): len(data) for data in (b"hello", b"other", b"")}
    put(store, b"another tenant's", tenant="acme")
    put(store, b"whose name begins alike", tenant="local-2")
    listed = {one.digest: one for one in store.list("local")}
    assert set(listed) == set(wanted)
    for digest, one in listed.items():
        assert one.bytes >= wanted[digest]  # sealed, they take more
        assert before - 60 < one.at_s < time.time() + 60  # a server's clock
    damage(store)
    store.set_aside("local", OF_HELLO)
    left = {one.digest: one.bytes for one in store.list("local")}
    assert not left.pop(OF_HELLO, 0)  # an object is emptied, not deleted
    assert left.keys() == set(wanted) - {OF_HELLO}
    assert [one.digest for one in store.list("local", aside=True)] == [OF_HELLO]


def test_deleting_a_blob_and_what_is_set_aside_of_it_are_two_things(store: BlobStore) -> None:
    put(store, b"hello")
    damage(store)
    store.set_aside("local", OF_HELLO)
    put(store, b"hello")
    store.delete("local", OF_HELLO, aside=True)
    store.delete("local", OF_HELLO, aside=True)
    assert list(store.list("local", aside=True)) == []
    assert store.has("local", OF_HELLO) == 5


def test_a_whole_blob_is_not_set_aside(store: BlobStore) -> None:
    """As whoever found it damaged would, before somebody else repaired it."""
    for data in (b"hello", b""):
        digest = put(store, data)
        store.set_aside("local", digest)
        assert store.has("local", digest) == len(data)
        assert b"".join(store.open("local", digest)) == data


def test_what_somebody_puts_while_it_is_set_aside_stays(store: BlobStore, monkeypatch: pytest.MonkeyPatch) -> None:
    put(store, b"hello")
    damage(store)
    if isinstance(store, MemoryStore):
        return  # one step
    plain, module = arrives, sys.modules[type(store).__module__]

    def looked(chunks: Iterator[bytes]) -> bool:
        monkeypatch.setattr(module, "arrives", plain)
        found = plain(chunks)
        put(store, b"hello")
        return found

    monkeypatch.setattr(module, "arrives", looked)
    store.set_aside("local", OF_HELLO)
    assert store.has("local", OF_HELLO) == 5
    assert b"".join(store.open("local", OF_HELLO)) == b"hello"


def damage(store: BlobStore) -> None:
    """Change a byte of what lies there for `hello`."""
    if isinstance(store, MemoryStore):
        store.blobs["local", OF_HELLO] = b"hellO"
    elif isinstance(store, LocalStore):
        path = store._path("local", OF_HELLO)
        path.write_bytes(path.read_bytes()[:-1] + b"!")
    else:
        assert isinstance(store, ObjectStore)
        key = store._key("local", OF_HELLO)
        obstore.put(store._store, key, bytes(obstore.get(store._store, key).bytes())[:-1] + b"!")


def test_what_somebody_else_put_is_seen_at_once(store: BlobStore) -> None:
    assert store.has("local", OF_HELLO) is None
    thread = threading.Thread(target=put, args=(store, b"hello"))
    thread.start()
    thread.join()
    assert store.has("local", OF_HELLO) == 5


def test_knowing_a_digest_gives_no_other_tenant_the_bytes(store: BlobStore) -> None:
    put(store, b"hello", tenant="acme")
    assert store.has("local", OF_HELLO) is None
    with pytest.raises(Damaged):
        list(store.open("local", OF_HELLO))
    store.delete("local", OF_HELLO)
    assert store.has("acme", OF_HELLO) == 5


@pytest.mark.parametrize("tenant", ["", "..", "../acme", "a/b", ".partial", "Acme", "a\0b"])
def test_a_tenant_that_is_no_name_is_refused_everywhere(store: BlobStore, tenant: str) -> None:
    refused_everywhere(store, tenant, OF_HELLO)


@pytest.mark.parametrize(
    "digest",
    [
        *(
            "",
            "sha256:",
            "hello",
            "sha256:../../../etc/passwd",
            OF_HELLO[:-1],
            OF_HELLO + "0",
            OF_HELLO + "\n",
        ),
        *(OF_HELLO.upper(), OF_HELLO.removeprefix("sha256:"), "md5:" + "0" * 32, "sha256:" + "/" * 64),
    ],
)
def test_a_digest_that_is_no_digest_is_refused_everywhere(store: BlobStore, digest: str) -> None:
    refused_everywhere(store, "local", digest)


def refused_everywhere(store: BlobStore, tenant: str, digest: str) -> None:
    attempts: list[Callable[[str, str], object]] = [store.has, store.open, store.set_aside, store.delete]
    attempts.append(lambda tenant, digest: store.put(tenant, digest, [b"hello"]))
    attempts.append(lambda tenant, digest: store.delete(tenant, digest, aside=True))
    if digest == OF_HELLO:
        attempts.append(lambda tenant, _: store.note(tenant))
        attempts.append(lambda tenant, _: store.set_note(tenant, "x"))
        attempts.append(lambda tenant, _: list(store.list(tenant)))
    for attempt in attempts:
        with pytest.raises(InvalidRequest):
            attempt(tenant, digest)


def test_a_note_is_a_tenants_own_and_no_blob(store: BlobStore) -> None:
    assert store.note("local") is None
    for text in ("one", "zwei ä"):
        store.set_note("local", text)
        assert store.note("local") == text
    assert store.note("other") is None
    assert list(store.list("local")) == list(store.list("local", aside=True)) == []


def test_many_writers_of_one_blob_all_succeed(store: BlobStore) -> None:
    data = b"hello" * 10_000
    digests: list[str] = []
    threads = [threading.Thread(target=lambda: digests.append(put(store, data))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(digests) == 8
    assert b"".join(store.open("local", digests[0])) == data

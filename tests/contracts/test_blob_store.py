"""The contract of a BlobStore, run on every store in the table."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from graftwork.artifacts.stores import STORES, BlobStore, load_store
from graftwork.artifacts.stores.local import LocalStore
from graftwork.artifacts.stores.memory import MemoryStore
from graftwork.errors import Damaged, InvalidRequest
from support.scale import times

MAKERS: dict[str, Callable[[Path], BlobStore]] = {
    "local": lambda folder: LocalStore(folder / "artifacts"),
    "memory": lambda _folder: MemoryStore(),
}
OF_HELLO = "sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
OF_NOTHING = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


@pytest.fixture(params=sorted(MAKERS))
def store(request: pytest.FixtureRequest, tmp_path: Path) -> BlobStore:
    return MAKERS[request.param](tmp_path)


def put(store: BlobStore, data: bytes, tenant: str = "local") -> str:
    digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
    assert store.put(tenant, digest, [data]) == len(data)
    return digest


def test_every_store_of_the_table_is_held_to_the_contract() -> None:
    assert set(MAKERS) == set(STORES)
    assert load_store("local") is LocalStore


def test_an_unknown_kind_of_store_is_refused_with_those_there_are() -> None:
    with pytest.raises(InvalidRequest, match="local, memory"):
        load_store("nope")


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
    attempts: list[Callable[[str, str], object]] = [store.has, store.open, store.delete]
    attempts.append(lambda tenant, digest: store.put(tenant, digest, [b"hello"]))
    for attempt in attempts:
        with pytest.raises(InvalidRequest):
            attempt(tenant, digest)


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

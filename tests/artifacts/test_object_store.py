"""ObjectStore on a real S3 server: what lies in the bucket, also after damage, a kill or without a network."""

from __future__ import annotations

import hashlib
import socket
import subprocess
import sys
import traceback
from datetime import timedelta

import httpx
import obstore
import pytest
from obstore.store import S3Store

from graftwork.artifacts.stores.object import PART_BYTES, ObjectStore
from graftwork.errors import Damaged, Unavailable
from support.object_stores import SECRET, ObjectServer

HEX = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
DIGEST = f"sha256:{HEX}"
KEY = f"local/sha256/2c/{HEX}"


class Bucket:
    """A store, and the objects behind its back."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.store = ObjectStore(url)
        self.objects = S3Store.from_url(url, client_options={"allow_http": True})

    def listed(self) -> list[str]:
        return sorted(meta["path"] for page in obstore.list(self.objects) for meta in page)

    def read(self, key: str) -> bytes:
        return bytes(obstore.get(self.objects, key).bytes())


@pytest.fixture
def bucket(seaweedfs_server: ObjectServer) -> Bucket:
    return Bucket(seaweedfs_server.url())


def test_a_blob_is_one_object_under_its_tenant(bucket: Bucket) -> None:
    bucket.store.put("local", DIGEST, [b"hello"])
    bucket.store.put("acme", DIGEST, [b"hello"])
    prefix = bucket.url.removeprefix("s3://bucket/")
    assert [key.removeprefix(f"{prefix}/") for key in bucket.listed()] == [KEY.replace("local", "acme"), KEY]
    assert bucket.read(KEY) == b"hello"


@pytest.mark.parametrize("damage", [b"hellO", b"hell", b"hello!", b""])
def test_damaged_bytes_are_never_read_whole_and_another_put_repairs_and_keeps_them(
    bucket: Bucket, damage: bytes
) -> None:
    bucket.store.put("local", DIGEST, [b"hello"])
    obstore.put(bucket.objects, KEY, damage)
    given: list[bytes] = []
    with pytest.raises(Damaged, match="digest"):
        given.extend(bucket.store.open("local", DIGEST))
    assert given == []
    bucket.store.put("local", DIGEST, [b"hello"])
    assert b"".join(bucket.store.open("local", DIGEST)) == b"hello"
    if damage:
        assert bucket.read(f"local/quarantine/{HEX}") == damage


def test_a_blob_that_is_whole_is_not_written_again(bucket: Bucket) -> None:
    data = bytes(PART_BYTES + 10)
    digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
    for blob, name in ((b"hello", DIGEST), (data, digest)):
        bucket.store.put("local", name, [blob])
    before = [(meta["path"], meta["last_modified"]) for page in obstore.list(bucket.objects) for meta in page]
    for blob, name in ((b"hello", DIGEST), (data, digest)):
        assert bucket.store.put("local", name, [blob]) == len(blob)
    assert before == [(meta["path"], meta["last_modified"]) for page in obstore.list(bucket.objects) for meta in page]


def test_a_writer_that_is_killed_between_parts_leaves_no_blob(bucket: Bucket) -> None:
    data = bytes(3 * PART_BYTES)
    digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
    script = (
        "import os, sys\n"
        "from graftwork.artifacts.stores.object import PART_BYTES, ObjectStore\n"
        "def chunks():\n"
        "    yield from [bytes(PART_BYTES)] * 2\n"
        "    os._exit(9)\n"
        "ObjectStore(sys.argv[1]).put('local', sys.argv[2], chunks())\n"
    )
    assert subprocess.run([sys.executable, "-W", "error", "-c", script, bucket.url, digest]).returncode == 9
    assert bucket.store.has("local", digest) is None
    assert bucket.store.put("local", digest, [data]) == len(data)
    assert sum(map(len, bucket.store.open("local", digest))) == len(data)


def test_server_side_encryption_is_asked_for_as_the_environment_says(
    seaweedfs_server: ObjectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SERVER_SIDE_ENCRYPTION", "AES256")
    bucket, data = Bucket(seaweedfs_server.url()), bytes(PART_BYTES + 10)
    digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
    bucket.store.put("local", DIGEST, [b"hello"])
    bucket.store.put("local", digest, [data])
    for key in (KEY, f"local/sha256/{digest[7:9]}/{digest[7:]}"):
        head = httpx.head(obstore.sign(bucket.objects, "HEAD", key, timedelta(minutes=1)))
        assert head.headers["x-amz-server-side-encryption"] == "AES256"
    assert b"".join(bucket.store.open("local", DIGEST)) == b"hello"
    assert sum(map(len, bucket.store.open("local", digest))) == len(data)


def test_a_store_that_refuses_us_says_so_without_secrets(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = f"wrong-{SECRET}"
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", wrong)
    store = ObjectStore(bucket.url)
    for attempt in (
        lambda: store.put("local", DIGEST, [b"hello"]),
        lambda: store.has("local", DIGEST),
        lambda: list(store.open("local", DIGEST)),
    ):
        with pytest.raises(Unavailable, match="s3://bucket") as caught:
            attempt()
        said = "".join(traceback.format_exception(caught.value))
        assert SECRET not in said
        assert "Signature=" not in said


def test_a_store_that_is_away_is_unavailable_after_a_bounded_time(
    seaweedfs_server: ObjectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as taken:  # bound, but nobody listens
        taken.bind(("127.0.0.1", 0))
        monkeypatch.setenv("AWS_ENDPOINT", f"http://127.0.0.1:{taken.getsockname()[1]}")
        monkeypatch.setattr("graftwork.artifacts.stores.object.RETRY", {"max_retries": 1})
        store = ObjectStore(seaweedfs_server.url())
        with pytest.raises(Unavailable, match="cannot be read"):
            store.has("local", DIGEST)


def test_a_server_that_accepts_and_says_nothing_is_unavailable(
    seaweedfs_server: ObjectServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("AWS_ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
        monkeypatch.setattr("graftwork.artifacts.stores.object.RETRY", {"max_retries": 0})
        monkeypatch.setattr("graftwork.artifacts.stores.object.TIMEOUT_S", 0.2)
        with pytest.raises(Unavailable, match="cannot be read"):
            ObjectStore(seaweedfs_server.url()).has("local", DIGEST)

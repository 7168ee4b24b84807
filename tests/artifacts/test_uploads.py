"""Uploads: what has come of a blob waits for the rest, for one writer at a time."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from graftwork.artifacts.partial import GARBAGE_AFTER_S, PARTIAL
from graftwork.artifacts.uploads import Uploads, chunks_of
from graftwork.errors import Conflict, InvalidRequest, Unavailable

DIGEST = "sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
OTHER = "sha256:" + "0" * 64


@pytest.fixture
def uploads(tmp_path: Path) -> Uploads:
    return Uploads(tmp_path / "uploads")


def add(uploads: Uploads, data: bytes, offset: int, tenant: str = "local") -> bytes:
    with uploads.continued(tenant, DIGEST, offset) as file:
        file.write(data)
        return b"".join(chunks_of(file))


def test_an_upload_goes_on_where_it_ended(uploads: Uploads) -> None:
    assert uploads.offset("local", DIGEST) == 0
    assert add(uploads, b"he", 0) == b"he"
    assert uploads.offset("local", DIGEST) == 2
    assert add(uploads, b"llo", 2) == b"hello"
    uploads.drop("local", DIGEST)
    uploads.drop("local", DIGEST)
    assert uploads.offset("local", DIGEST) == 0


@pytest.mark.parametrize("offset", [0, 1, 3, 10**18])
def test_another_offset_is_a_conflict_that_says_the_right_one(uploads: Uploads, offset: int) -> None:
    add(uploads, b"he", 0)
    with pytest.raises(Conflict, match=r"^2 bytes"):
        add(uploads, b"llo", offset)
    assert uploads.offset("local", DIGEST) == 2


def test_two_do_not_write_one_blob_at_once(uploads: Uploads, tmp_path: Path) -> None:
    with uploads.continued("local", DIGEST, 0) as file:
        for other in (uploads, Uploads(tmp_path / "uploads")):
            with pytest.raises(Conflict, match="Somebody else"):
                add(other, b"x", 0)
        add(uploads, b"x", 0, tenant="acme")
        file.write(b"he")
    assert add(uploads, b"llo", 2) == b"hello"


def test_one_that_was_finished_meanwhile_is_begun_anew(uploads: Uploads) -> None:
    with uploads.continued("local", DIGEST, 0) as file:
        file.write(b"hello")
        uploads.drop("local", DIGEST)
    assert add(uploads, b"he", 0) == b"he"


def test_what_nobody_added_to_for_a_day_is_swept_when_another_begins(uploads: Uploads, tmp_path: Path) -> None:
    add(uploads, b"he", 0)
    [partial] = (tmp_path / "uploads" / PARTIAL).iterdir()
    old = time.time() - GARBAGE_AFTER_S - 60
    os.utime(partial, (old, old))
    with uploads.continued("local", OTHER, 0):
        assert uploads.offset("local", DIGEST) == 0


def test_names_that_lead_elsewhere_and_links_are_refused(uploads: Uploads, tmp_path: Path) -> None:
    for tenant, digest in (("..", DIGEST), ("a/b", DIGEST), ("local", "sha256:../x"), ("local", DIGEST + "\n")):
        with pytest.raises(InvalidRequest):
            uploads.offset(tenant, digest)
    (tmp_path / "secret").write_bytes(b"secret")
    (tmp_path / "uploads" / PARTIAL).mkdir(parents=True, exist_ok=True)
    (tmp_path / "uploads" / PARTIAL / f"local.{DIGEST.removeprefix('sha256:')}").symlink_to(tmp_path / "secret")
    with pytest.raises(Unavailable):
        add(uploads, b"x", 6)
    assert (tmp_path / "secret").read_bytes() == b"secret"

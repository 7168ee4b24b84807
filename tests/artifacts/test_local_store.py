"""LocalStore: what lies on the disk, also after a crash or when somebody changed it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from graftwork.artifacts.digest import CHUNK_BYTES, digest_of_file
from graftwork.artifacts.partial import PARTIAL
from graftwork.artifacts.stores.local import LocalStore
from graftwork.errors import Damaged, Unavailable

HEX = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
DIGEST = f"sha256:{HEX}"


class Crash(BaseException):
    """The process is killed here."""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "artifacts"


@pytest.fixture
def store(root: Path) -> LocalStore:
    return LocalStore(root)


def blob(root: Path) -> Path:
    return root / "local" / "sha256" / "2c" / HEX


def test_a_blob_is_one_file_under_its_tenant(store: LocalStore, root: Path) -> None:
    store.put("local", DIGEST, [b"hello"])
    assert blob(root).read_bytes() == b"hello"
    assert [path for path in root.rglob("*") if path.is_file()] == [blob(root)]


@pytest.mark.parametrize("step", ["os.fsync", "pathlib.Path.replace", "pathlib.Path.mkdir"])
def test_a_crash_at_any_step_leaves_no_visible_blob(
    store: LocalStore, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def crash(*_args: object, **_kwargs: object) -> None:
        raise Crash

    monkeypatch.setattr(step, crash)
    with pytest.raises(Crash):
        store.put("local", DIGEST, [b"hello"])
    monkeypatch.undo()
    assert store.has("local", DIGEST) is None
    assert store.put("local", DIGEST, [b"hello"]) == 5


def test_what_a_killed_writer_left_is_not_a_blob(store: LocalStore, root: Path) -> None:
    (root / PARTIAL).mkdir(parents=True)
    (root / PARTIAL / "0123").write_bytes(b"hel")
    assert store.has("local", DIGEST) is None


def test_the_bytes_are_on_the_disk_before_the_name_is(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []

    def noted(step: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            steps.append(step)
            return real(*arguments)

        return call

    monkeypatch.setattr(os, "fsync", noted("flush", os.fsync))
    monkeypatch.setattr(Path, "replace", noted("rename", Path.replace))
    store.put("local", DIGEST, [b"hello"])
    assert steps == ["flush", "rename", "flush"]


@pytest.mark.parametrize("damage", [b"hellO", b"hell", b"hello!", b""])
def test_damaged_bytes_are_never_read_whole_and_another_put_repairs_them(
    store: LocalStore, root: Path, damage: bytes
) -> None:
    store.put("local", DIGEST, [b"hello"])
    blob(root).write_bytes(damage)
    with pytest.raises(Damaged, match="digest"):
        list(store.open("local", DIGEST))
    store.put("local", DIGEST, [b"hello"])
    assert b"".join(store.open("local", DIGEST)) == b"hello"


def test_a_large_blob_that_is_damaged_never_gives_out_its_last_chunk(
    store: LocalStore, root: Path, tmp_path: Path
) -> None:
    data = bytes(2 * CHUNK_BYTES + 10)
    (tmp_path / "file").write_bytes(data)
    digest = digest_of_file(tmp_path / "file")
    store.put("local", digest, [data])
    path = next(path for path in root.rglob("*") if path.is_file())
    path.write_bytes(data[:-1] + b"x")
    given: list[bytes] = []
    with pytest.raises(Damaged):
        given.extend(store.open("local", digest))
    assert sum(map(len, given)) == 2 * CHUNK_BYTES


def test_a_link_in_the_store_is_not_followed(store: LocalStore, root: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"hello")
    blob(root).parent.mkdir(parents=True)
    blob(root).symlink_to(tmp_path / "secret")
    with pytest.raises(Damaged):
        list(store.open("local", DIGEST))


def test_a_store_that_cannot_be_written_says_where(tmp_path: Path) -> None:
    (tmp_path / "artifacts").write_text("a file where the folder should be")
    with pytest.raises(Unavailable, match="artifacts"):
        LocalStore(tmp_path / "artifacts").put("local", DIGEST, [b"hello"])

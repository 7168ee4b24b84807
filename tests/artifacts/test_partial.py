"""Partial files: what a crash left goes after a day, what is being written stays."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from graftwork.artifacts.partial import GARBAGE_AFTER_S, PARTIAL, sweep
from graftwork.artifacts.stores.local import LocalStore
from graftwork.artifacts.stores.memory import MemoryStore
from graftwork.artifacts.working_copy import WorkingCopies

OWNERS: dict[str, Callable[[Path], object]] = {
    "store": LocalStore,
    "working copies": lambda root: WorkingCopies(root, MemoryStore()),
}


def left(root: Path, name: str, age_s: float) -> Path:
    """A file of this age; `name` may lie in folders, which get the same age."""
    path = root / PARTIAL / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"hel")
    moment = time.time() - age_s
    for entry in (path, *path.parents):
        if entry.name == PARTIAL:
            break
        os.utime(entry, (moment, moment))
    return path


@pytest.mark.parametrize("owner", OWNERS)
def test_what_nobody_wrote_to_for_a_day_goes_when_the_root_is_opened(tmp_path: Path, owner: str) -> None:
    left(tmp_path, "0123", GARBAGE_AFTER_S + 60)
    left(tmp_path, "tmpabc/fresh/sub/notes.md", GARBAGE_AFTER_S + 60)
    recent = left(tmp_path, "4567", GARBAGE_AFTER_S - 60)
    OWNERS[owner](tmp_path)
    assert list((tmp_path / PARTIAL).iterdir()) == [recent]


def test_an_old_folder_that_is_still_written_to_stays(tmp_path: Path) -> None:
    path = left(tmp_path, "tmpabc/fresh/notes.md", GARBAGE_AFTER_S + 60)
    os.utime(path)
    sweep(tmp_path)
    assert path.exists()


def test_a_link_is_removed_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").write_bytes(b"x")
    link = left(tmp_path, "0123", 0).with_name("link")
    link.symlink_to(tmp_path / "kept")
    moment = time.time() - GARBAGE_AFTER_S - 60
    os.utime(link, (moment, moment), follow_symlinks=False)
    os.utime(tmp_path / "kept" / "file", (moment, moment))
    sweep(tmp_path)
    assert not link.is_symlink()
    assert (tmp_path / "kept" / "file").exists()


def test_a_root_that_is_not_there_or_no_folder_is_left_alone(tmp_path: Path) -> None:
    sweep(tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()
    (tmp_path / "file").write_text("")
    sweep(tmp_path / "file")

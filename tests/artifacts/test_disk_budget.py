"""DiskBudget: a folder stays within its bytes; what is in use stays, and the others' share as well."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from graftwork.artifacts.disk_budget import DiskBudget, Kept


class Folder:
    """Files of any size, `<tenant>/<name>`; those in `busy` cannot be removed."""

    def __init__(self, root: Path, max_bytes: int) -> None:
        self.root, self.now = root, 0.0
        self.busy: set[str] = set()
        self.budget = DiskBudget(max_bytes, self._found, self._remove, lambda: self.now)

    def _found(self) -> Iterator[Kept]:
        for path in self.root.glob("*/*"):
            found = path.stat()
            yield Kept(path.parent.name, path, found.st_size, found.st_mtime)

    def _remove(self, path: Path) -> bool:
        if path.name in self.busy:
            return False
        path.unlink()
        return True

    def write(self, name: str, size: int) -> None:
        self.now += 1.0
        path = self.root / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(bytes(size))
        os.utime(path, (self.now, self.now))
        self.budget.wrote(size)

    @property
    def names(self) -> set[str]:
        return {path.name for path in self.root.glob("*/*")}


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path, 100)


def test_the_least_recently_used_go_and_a_sixteenth_more(folder: Folder) -> None:
    for number in range(11):
        folder.write(f"a/{number}", 10)
        assert sum(path.stat().st_size for path in folder.root.glob("*/*")) <= 100
    assert folder.names == {str(number) for number in range(2, 11)} and folder.budget.used == 90


def test_what_is_in_use_stays_and_goes_when_it_no_longer_is(folder: Folder) -> None:
    folder.busy = {"0", "1"}
    for number in range(4):
        folder.write(f"a/{number}", 60)
    assert folder.names == {"0", "1"} and folder.budget.used == 120
    folder.busy = {"1"}
    folder.budget.let_go()
    assert folder.names == {"1"} and folder.budget.used == 60


def test_a_flood_of_one_tenant_does_not_flush_anothers(folder: Folder) -> None:
    for number in range(3):
        folder.write(f"small/s{number}", 10)
    for number in range(50):
        folder.write(f"large/{number}", 10)
    assert {"s0", "s1", "s2"} <= folder.names


def test_one_thing_that_fits_stays(folder: Folder) -> None:
    folder.write("a/0", 98)
    folder.write("a/1", 98)
    assert folder.names == {"1"}


def test_what_was_there_before_is_seen(tmp_path: Path) -> None:
    Folder(tmp_path, 100).write("a/0", 40)
    assert Folder(tmp_path, 100).budget.used == 40

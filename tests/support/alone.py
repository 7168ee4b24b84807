"""Tests that are `alone` depend on time: where several processes run the suite, they run while no other test does.

They are marked so, or lie in a folder whose tests set engines under load.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

#: Locked, as a folder can be, by every test while it runs; by those that are alone, against all others.
_RUNNING = Path(__file__).parents[1]
#: Locked by whoever waits for that: after a test that waits to be alone, no other begins.
_NEXT = Path(__file__)


#: Here rows meet in a batch, loads meet rows, and figures are taken: each counts on the processors that are there.
_FOLDERS = tuple(_RUNNING / name for name in ("benchmarks", "e2e", "engine", "soak"))


def _is_alone(item: pytest.Item) -> bool:
    return item.get_closest_marker("alone") is not None or any(map(item.path.is_relative_to, _FOLDERS))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """With a test go its fixtures; what it waits is not part of its time."""
    with _locked(_RUNNING, fcntl.LOCK_EX if _is_alone(item) else fcntl.LOCK_SH):
        return (yield)


@contextmanager
def _locked(place: Path, kind: int) -> Iterator[None]:
    held = os.open(place, os.O_RDONLY)
    try:
        waiting = os.open(_NEXT, os.O_RDONLY)
        try:
            fcntl.flock(waiting, fcntl.LOCK_EX)
            fcntl.flock(held, kind)
        finally:
            os.close(waiting)
        yield
    finally:
        os.close(held)

"""Tests marked `alone` measure time: where several processes run the suite, they run while no other test does."""

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


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """With a test go its fixtures; what it waits is not part of its time."""
    with _locked(_RUNNING, fcntl.LOCK_EX if item.get_closest_marker("alone") else fcntl.LOCK_SH):
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

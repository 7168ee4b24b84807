"""eventually: waits for what another thread or process is about to do."""

from __future__ import annotations

import time
from collections.abc import Callable


def eventually(holds: Callable[[], bool], timeout_s: float = 30.0) -> None:
    """Return as soon as `holds()`; fails when it does not for so long (machines may be busy)."""
    deadline = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline, f"not within {timeout_s:g} s"
        time.sleep(0.005)

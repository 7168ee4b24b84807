"""eventually: waits for what another thread or process is about to do."""

from __future__ import annotations

import time
from collections.abc import Callable


def eventually(holds: Callable[[], bool], timeout_s: float = 30.0, *, pause_s: float = 0.005) -> None:
    """Return as soon as `holds()`; fails when it does not for so long (machines may be busy).

    Where asking is work for whoever is waited for, a longer `pause_s` between two times lets it get there.
    """
    deadline = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline, f"not within {timeout_s:g} s"
        time.sleep(pause_s)

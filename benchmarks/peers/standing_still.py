"""standing_still: an engine that is not being measured takes no part of the processor from the one that is."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def standing_still(pid: int) -> Iterator[None]:
    """Stop a process and all below it, and let them go on at the end.

    Some servers turn in circles while they wait for work, which on a small machine costs whoever works a third of
    its speed.
    """
    stopped: list[int] = []
    try:
        while new := [one for one in tree(pid) if one not in stopped]:  # until none has started another meanwhile
            for one in new:
                _send(one, signal.SIGSTOP)
                stopped.append(one)
        yield
    finally:
        for one in reversed(stopped):
            _send(one, signal.SIGCONT)


def tree(pid: int) -> list[int]:
    """A process and all below it, as Linux tells; where it does not, the process alone."""
    found = [pid]
    for one in found:
        for file in Path(f"/proc/{one}/task").glob("*/children"):
            with suppress(OSError):  # it has ended
                found += map(int, file.read_text().split())
    return found


def _send(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, number)

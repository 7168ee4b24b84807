"""AdapterSource: where the files of versions come from, and patience with one that does not answer."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol, TypeVar

from graftwork.errors import Unavailable

T = TypeVar("T")

#: The wait before the first further attempt, in seconds; before each later one it is twice as long.
FIRST_PAUSE_S = 0.1
#: How often one who waits looks whether it is still to go on, in seconds.
_LOOK_S = 0.02


class AdapterSource(Protocol):
    """Where the bytes of a version come from; the engine does not know of registries and stores."""

    def files(self, tenant: str, digest: str) -> AbstractContextManager[Path]:
        """A verified local folder of a version's files, there until the block ends. Blocking; called beside the loop.

        Raises:
            Unavailable, OSError: when it cannot be had now; another attempt may do.
            GraftworkError: when it is missing or damaged.
        """
        ...

    def wanted(self, tenant: str, digest: str) -> bool:
        """Whether a version may be brought to memory unasked: it is there, and nobody forbids to serve it."""
        ...

    def remove(self, tenant: str, digest: str) -> None:
        """Forget what lies on the local disk of a version; the next call for it brings it again."""
        ...


def patiently(attempt: Callable[[], T], retries: int, go_on: Callable[[], None]) -> T:
    """The result of an attempt that may fail `retries` times because something does not answer (Unavailable, OSError).

    `go_on` raises when it is to end: nobody waits any more, or it took too long. Anything else ends it at once.
    """
    pause_s = FIRST_PAUSE_S
    for _ in range(retries):
        go_on()
        try:
            return attempt()
        except (Unavailable, OSError):
            _sleep(pause_s, go_on)
            pause_s *= 2
    go_on()
    return attempt()


def _sleep(seconds: float, go_on: Callable[[], None]) -> None:
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        go_on()
        time.sleep(min(left, _LOOK_S))

"""Waiting: says on stderr what is waited for, and waits until a server is ready, within bounds."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from graftwork.errors import Unavailable

_POLL_S = 0.1


@contextmanager
def status(what: str) -> Iterator[None]:
    """`what` beside a spinner on stderr while the block runs; one line where stderr is no terminal."""
    from rich.console import Console

    console = Console(file=sys.stderr)
    if not console.is_terminal:
        print(f"{what} …", file=sys.stderr, flush=True)
        yield
        return
    with console.status(f"{what} …"):
        yield


def wait_until_ready(reasons: Callable[[], Sequence[str]], timeout_s: float, check: Callable[[], None]) -> None:
    """Wait until there are no `reasons` any more; `check` may raise in between.

    Raises:
        Unavailable: there still are after `timeout_s`; it names them.
    """
    deadline = time.monotonic() + timeout_s
    while left := reasons():
        check()
        if time.monotonic() > deadline:
            raise Unavailable(f"The server is not ready after {timeout_s:.0f} s: {'; '.join(left)}")
        time.sleep(_POLL_S)

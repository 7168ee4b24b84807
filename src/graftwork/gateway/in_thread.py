"""in_thread: work of a loop beside the requests, which ends before whoever is cancelled does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


async def in_thread(work: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
    """As `asyncio.to_thread`; but a thread goes on when its caller is cancelled, and that one waits for its end.

    Else it would ask a database that is closed by then, and leave connections behind.
    """
    running = asyncio.ensure_future(asyncio.to_thread(work, *args, **options))
    try:
        return await asyncio.shield(running)
    finally:
        if not running.done():
            await asyncio.wait([running])
            running.exception()  # of no use to anybody any more

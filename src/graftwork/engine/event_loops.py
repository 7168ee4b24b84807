"""call_in: from another thread into an event loop, which may be closed meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVarTuple

Args = TypeVarTuple("Args")


def call_in(loop: asyncio.AbstractEventLoop, call: Callable[[*Args], object], *args: *Args) -> None:
    """Have `loop` make a call soon; where it is closed, nobody is left to tell."""
    try:
        loop.call_soon_threadsafe(call, *args)
    except RuntimeError:
        return

"""result_of: the result of a future for which others may wait too."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


async def result_of(future: Future[T]) -> T:
    """Whoever is cancelled while he waits takes it from nobody, and leaves no error behind that nobody retrieved."""
    own = asyncio.wrap_future(future)
    own.add_done_callback(_retrieve)
    await asyncio.wait([own])  # which, unlike an await of itself, does not cancel it
    return own.result()


def _retrieve(future: asyncio.Future[T]) -> None:
    if not future.cancelled():
        future.exception()

"""result_of, retrieve: futures whose callers may leave before they end."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


async def result_of(future: Future[T]) -> T:
    """Whoever is cancelled while he waits takes it from nobody, and leaves no error behind that nobody retrieved."""
    own = asyncio.wrap_future(future)
    own.add_done_callback(retrieve)
    await asyncio.wait([own])  # which, unlike an await of itself, does not cancel it
    return own.result()


def retrieve(future: asyncio.Future[T]) -> None:
    """Called when it is done: its error is not logged as one that nobody retrieved."""
    if not future.cancelled():
        future.exception()

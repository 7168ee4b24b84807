"""Streams: the open streams of all requests, and the one message per step that each event loop gets for its own."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

from graftwork.engine.event_loops import call_in
from graftwork.engine.loop import Output
from graftwork.engine.stream import Item, Stream
from graftwork.errors import GraftworkError, InvalidRequest


class Streams:
    """Owns them, by request; opened and read in event loops, filled from the loop's thread."""

    def __init__(self) -> None:
        self._open: dict[str, Stream] = {}

    def __len__(self) -> int:
        return len(self._open)

    @contextmanager
    def open(self, key: str) -> Iterator[Stream]:
        """A stream of the running event loop, open until the block is left.

        Raises:
            InvalidRequest: that request has one.
        """
        if key in self._open:
            raise InvalidRequest(f"A request with the id {key!r} is running already.", field="id")
        stream = self._open[key] = Stream()
        try:
            yield stream
        finally:
            del self._open[key]

    def deliver(self, outputs: list[Output]) -> None:
        """Hand over what a step has for requests whose stream is still open."""
        by_loop: dict[asyncio.AbstractEventLoop, list[tuple[Stream, Item | GraftworkError]]] = defaultdict(list)
        for key, item in outputs:
            if (stream := self._open.get(key)) is not None:
                by_loop[stream.loop].append((stream, item))
        for loop, items in by_loop.items():
            call_in(loop, _put_all, items)


def _put_all(items: list[tuple[Stream, Item | GraftworkError]]) -> None:
    for stream, item in items:
        stream.queue.put_nowait(item)

"""Stream: what one row gives, on its way from the loop's thread to the event loop of its caller."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from graftwork.engine.request import Delta, Pooled
from graftwork.errors import GraftworkError

#: A piece of an answer, or the one thing that a prompt became.
Item = Delta | Pooled


@dataclass
class Stream:
    """Made in the caller's event loop, which alone reads it and puts into it."""

    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    queue: asyncio.Queue[Item | GraftworkError] = field(default_factory=asyncio.Queue)
    #: Whether the last item has been taken: the loop has dropped the row by itself.
    ended: bool = False
    #: Whether its time was over before that.
    timed_out: bool = False

    async def next(self) -> Item:
        """The next item; raises the error that ends the row."""
        item = await self.queue.get()
        self.ended = isinstance(item, GraftworkError | Pooled) or item.finish_reason is not None
        if isinstance(item, GraftworkError):
            raise item
        return item

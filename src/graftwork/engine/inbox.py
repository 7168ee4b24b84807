"""Inbox: what other threads tell the loop's, and how long a loop that has nothing to do waits for more of it."""

from __future__ import annotations

import queue
from collections.abc import Callable
from dataclasses import dataclass

from graftwork.engine.sequence import Sequence
from graftwork.errors import GraftworkError


@dataclass(frozen=True)
class Submit:
    """A new row."""

    sequence: Sequence


@dataclass(frozen=True)
class Abort:
    """Nobody waits for this row any more."""

    id: str


@dataclass(frozen=True)
class Loaded:
    """A load has ended; on success (no error) the version holds one pin, which the loop takes over."""

    digest: str
    error: GraftworkError | None


#: None: stop.
Message = Submit | Abort | Loaded | None


class Inbox:
    """Any thread puts messages in; the loop's thread reads them, in order.

    Args:
        batch_wait_s: how long, in seconds, an idle loop waits for more rows once the first has come.
        batch_rows: with so many it waits no longer.
    """

    def __init__(self, batch_wait_s: float, batch_rows: int, clock: Callable[[], float]) -> None:
        self._queue: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._batch_wait_s, self._batch_rows, self._clock = batch_wait_s, batch_rows, clock

    def put(self, message: Message) -> None:
        self._queue.put(message)

    def read(self) -> list[Message]:
        """Every message that is there."""
        return self._drain([])

    def wait(self, longest_s: float | None) -> list[Message]:
        """The next messages, a batch of rows if need be; nothing when none came within `longest_s` seconds."""
        messages: list[Message] = []
        try:
            messages.append(self._queue.get(timeout=longest_s))
            closes = self._clock() + self._batch_wait_s
            while (left := closes - self._clock()) > 0 and self._may_grow(messages):
                messages.append(self._queue.get(timeout=left))
        except queue.Empty:
            return messages
        return self._drain(messages)

    def _may_grow(self, messages: list[Message]) -> bool:
        """Whether rows have come, but not enough of them: what else is told opens no window, and is seen to at once."""
        rows = sum(isinstance(one, Submit) for one in messages)
        return None not in messages and 0 < rows < self._batch_rows

    def _drain(self, messages: list[Message]) -> list[Message]:
        try:
            while True:
                messages.append(self._queue.get_nowait())
        except queue.Empty:
            return messages

"""Journal: entries on their way to the database, written in batches by one thread, behind the answers or before them.

What is put is lost when the process dies before it is written: at most what came in `pause_s`, and in the time that
one batch takes. What is committed is not lost. While the database cannot be used, what was put waits; beyond `most`
entries, or `most_bytes` of what they hold, new ones are dropped and counted.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Final, Generic, Protocol, TypeVar

from graftwork.errors import GraftworkError, Unavailable

log = logging.getLogger(__name__)

PAUSE_S: Final = 0.2
BATCH: Final = 500
MOST: Final = 10_000
MOST_BYTES: Final = 64 << 20
#: Pause after a write that failed, in seconds.
RETRY_S: Final = 1.0


class Sized(Protocol):
    """What is to be written."""

    @property
    def size(self) -> int:
        """About how many bytes of memory it holds."""
        ...


Entry = TypeVar("Entry", bound=Sized)


class Journal(Generic[Entry]):
    """For use from any thread; its own starts with the first entry.

    Args:
        what: what entries are, for the log.
        write: writes a batch, whole or not at all; Unavailable means not now.
        dropped: told how many entries will never be written.
    """

    def __init__(
        self,
        write: Callable[[Sequence[Entry]], None],
        *,
        dropped: Callable[[int], None],
        what: str = "records of answers",
        pause_s: float = PAUSE_S,
        most: int = MOST,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        self._write, self._dropped, self._what = write, dropped, what
        self._pause_s, self._most, self._most_bytes = pause_s, most, most_bytes
        self._waiting: deque[tuple[Entry | None, Future[None] | None]] = deque()
        self._bytes = 0
        self._urgent = 0  # of those that wait: somebody waits for them
        self._change = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False

    def put(self, entry: Entry) -> None:
        """Have it written soon; never waits."""
        with self._change:
            if self._closed or len(self._waiting) >= self._most or self._bytes + entry.size > self._most_bytes:
                self._dropped(1)
                return
            self._add(entry, None)

    def commit(self, entry: Entry) -> Future[None]:
        """Have it written at once; done when it is committed, and failed where it cannot be."""
        return self._soon(entry)

    def flush(self) -> Future[None]:
        """Done when everything that was put before is written; failed where that cannot be now."""
        return self._soon(None)

    def close(self, timeout_s: float = 5.0) -> None:
        """Write what waits, as far as time allows; what is left is dropped."""
        with self._change:
            self._closed, thread = True, self._thread
            self._change.notify()
        if thread is not None:
            thread.join(timeout_s)
        with self._change:
            left = sum(entry is not None for entry, _ in self._waiting)
            self._waiting.clear()
        if left:
            log.error("%d %s were not written: the server ends.", left, self._what)
            self._dropped(left)

    def check(self) -> None:
        """Assert the invariants."""
        with self._change:
            assert self._bytes == sum(entry.size for entry, _ in self._waiting if entry is not None)
            assert self._urgent == sum(future is not None for _, future in self._waiting)

    def _soon(self, entry: Entry | None) -> Future[None]:
        future: Future[None] = Future()
        with self._change:
            if self._closed:
                future.set_exception(Unavailable("The server is shutting down."))
            elif entry is None and not self._waiting and self._thread is None:
                future.set_result(None)
            else:
                self._add(entry, future)
        return future

    def _add(self, entry: Entry | None, future: Future[None] | None) -> None:
        self._waiting.append((entry, future))
        self._bytes += entry.size if entry is not None else 0
        self._urgent += future is not None
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="graftwork-journal", daemon=True)
            self._thread.start()
        if future is not None or len(self._waiting) in (1, BATCH):
            self._change.notify()

    def _serve(self) -> None:
        while (batch := self._next()) is not None:
            entries = [entry for entry, _ in batch if entry is not None]
            try:
                if entries:
                    self._write(entries)
            except Exception as error:
                self._failed(batch, error)
            else:
                for _, future in batch:
                    if future is not None:
                        future.set_result(None)

    def _next(self) -> list[tuple[Entry | None, Future[None] | None]] | None:
        """The next batch, when its time has come; None when all is written and nothing more comes."""
        with self._change:
            self._change.wait_for(lambda: self._waiting or self._closed)
            self._change.wait_for(
                lambda: self._urgent or self._closed or len(self._waiting) >= BATCH, timeout=self._pause_s
            )
            if not self._waiting:
                return None if self._closed else []
            batch = [self._waiting.popleft() for _ in range(min(BATCH, len(self._waiting)))]
            self._bytes -= sum(entry.size for entry, _ in batch if entry is not None)
            self._urgent -= sum(future is not None for _, future in batch)
        # A caller that has gone meanwhile takes nothing back: the entry is written all the same.
        return [(entry, _running(future)) for entry, future in batch]

    def _failed(self, batch: list[tuple[Entry | None, Future[None] | None]], error: Exception) -> None:
        """Tell who waits; keep the others for later, where there is a later."""
        again = isinstance(error, Unavailable)
        log.log(
            logging.WARNING if isinstance(error, GraftworkError) else logging.ERROR,
            "%s cannot be written%s: %s",
            self._what,
            ", and are tried again" if again else "",
            error,
            exc_info=None if again else error,
        )
        for _, future in batch:
            if future is not None:
                future.set_exception(error)
        kept = [(entry, None) for entry, future in batch if entry is not None and future is None]
        with self._change:
            if again and not self._closed:
                self._waiting.extendleft(reversed(kept))
                self._bytes += sum(entry.size for entry, _ in kept)
                kept = []
            self._dropped(sum(entry is not None for entry, future in batch if future is not None) + len(kept))
            self._change.wait_for(lambda: self._closed or self._urgent, timeout=RETRY_S if again else 0)


def _running(future: Future[None] | None) -> Future[None] | None:
    return future if future is not None and future.set_running_or_notify_cancel() else None

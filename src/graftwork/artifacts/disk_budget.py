"""DiskBudget: how many bytes a folder of things that can be made again may take, and which of them leave."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path

from graftwork.artifacts.eviction import Holding, next_to_leave


@dataclass(frozen=True)
class Kept:
    """One thing on disk, its tenant's, and when it was last used (`time.time`)."""

    tenant: str
    path: Path
    bytes: int
    used_s: float


class DiskBudget:
    """Keeps what `found` finds within `max_bytes`; other processes may write there too.

    It looks through the folder when a sixteenth of the budget was written since the last time, and where it is full
    frees as much, by `next_to_leave`. What `remove` says no to stays, and counts.

    Args:
        found: everything that is there.
        remove: takes one away; False where it is in use.
    """

    def __init__(
        self,
        max_bytes: int,
        found: Callable[[], Iterable[Kept]],
        remove: Callable[[Path], bool],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.max_bytes = max_bytes
        self._found, self._remove, self._clock = found, remove, clock
        self._lock = threading.Lock()
        self._seen: int | None = None  # bytes at the last look; None: nobody looked yet
        self._written = 0  # since then
        self._room = 0  # how much may be written before the next look

    def wrote(self, size: int) -> None:
        """So many bytes were added; makes room where it is time to."""
        with self._lock:
            self._written += size
            if self._written > self._room:
                self._look()

    def let_go(self) -> None:
        """Something is in use no more; makes room where only that was in the way."""
        with self._lock:
            if self._seen is not None and self._seen > self.max_bytes:
                self._look()

    def took(self) -> None:
        """Something was taken away; whoever asks next how much there is looks again."""
        with self._lock:
            self._seen = None

    @property
    def used(self) -> int:
        """Bytes that are there, as far as is known without looking each time."""
        with self._lock:
            if self._seen is None:
                self._look()
            assert self._seen is not None, "it was looked at"
            return self._seen + self._written

    def _look(self) -> None:
        held: Counter[str] = Counter()
        queues: dict[str, deque[Kept]] = {}
        for one in sorted(self._found(), key=attrgetter("used_s")):
            held[one.tenant] += one.bytes
            queues.setdefault(one.tenant, deque()).append(one)
        total, step = held.total(), self.max_bytes // 16
        most = self.max_bytes - step if total > self.max_bytes else self.max_bytes
        left = sum(map(len, queues.values()))
        while queues and (total > self.max_bytes or (total > most and left > 1)):  # the last one stays if it fits
            holdings = {tenant: Holding(held[tenant], queue[0].used_s) for tenant, queue in queues.items()}
            tenant = next_to_leave(holdings, self._clock())
            gone, left = queues[tenant].popleft(), left - 1
            if not queues[tenant]:
                del queues[tenant]
            if self._remove(gone.path):
                total, held[tenant] = total - gone.bytes, held[tenant] - gone.bytes
        self._seen, self._written = total, 0
        self._room = max(0, min(step, self.max_bytes - total))

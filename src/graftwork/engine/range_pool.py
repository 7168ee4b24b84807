"""RangePool: ranges of one long stretch of addresses, of which no more than a budget is in use at a time.

NOTE: A range is contiguous, so whoever holds one needs a base and offsets, and copies into it once. The machine's own
pages do the rest: addresses are reserved many times over, memory comes as a page is first written, and what was freed
is given back before it could exceed the budget. Fragmentation therefore costs addresses, not bytes; but where the
system backs them with huge pages, it may take up to 2 MiB more at each end of a range.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache

import torch

#: Addresses reserved for each byte of the budget; fewer where the system does not allow it.
_SPREAD = (16, 4, 1)
#: Reserve without promising memory: Linux's value, which Python names since 3.13.
_NO_RESERVE = 0x4000 if sys.platform == "linux" else 0


@dataclass(frozen=True)
class Range:
    """Bytes [start, stop) of the pool's buffer, both at multiples of the pool's granule."""

    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start


class RangePool:
    """Owns the buffer and its holes; who holds a range is its holder's business.

    Not locked: whoever uses it keeps calls apart, all but `cool`, which asks the system and may take a while.
    """

    def __init__(self, capacity_bytes: int) -> None:
        #: Sizes are rounded up to it, in bytes: a page of this machine.
        self.granule = mmap.PAGESIZE
        self.capacity = max(1, capacity_bytes // self.granule) * self.granule
        self._map = _reserved(self.capacity)
        self.buffer = torch.frombuffer(self._map, dtype=torch.uint8)  # [addresses reserved]
        self._held: dict[int, Range] = {}
        self._fresh = _Holes()  # never written, or given back to the system
        self._warm = _Holes()  # freed, and still backed by memory
        self._cooling: set[Range] = set()  # set aside to be given back
        self._fresh.add(Range(0, len(self.buffer)))
        self.used = 0

    def rounded(self, size: int) -> int:
        """The bytes that a range for `size` bytes takes: at least one granule."""
        return max(1, -(-size // self.granule)) * self.granule

    def allocate(self, size: int) -> Range | None:
        """A range for `size` bytes with undefined content, or None and no change where there is no room for it.

        Before it is written, and before another try where there was none, what `set_aside` gives must be cooled: freed
        memory that is beyond the budget now, or whose addresses a range of this size needs.
        """
        size = self.rounded(size)
        if self.used + size > self.capacity:
            return None
        found = self._warm.take(size) or self._fresh.take(size)
        if found is not None:
            self._held[found.start] = found
            self.used += len(found)
        return found

    @property
    def in_pieces(self) -> bool:
        """Whether addresses could be had by cooling what is freed; bytes are not the matter."""
        return self._warm.total > 0

    def set_aside(self, *, all_of_it: bool = False) -> Sequence[Range]:
        """Take freed memory out that is beyond the budget, the highest first; it must be cooled, and then told."""
        most = 0 if all_of_it else self.capacity - self.used
        aside = []
        while self._warm.total > most:
            aside.append(self._warm.pop())
        self._cooling.update(aside)
        return aside

    def cool(self, aside: Sequence[Range]) -> None:
        """Give memory that was set aside back to the system; touches no books, so that no lock need be held."""
        for hole in aside:
            _give_back(self._map, self.buffer.data_ptr(), hole)

    def cooled(self, aside: Sequence[Range]) -> None:
        """What was set aside is cooled, and can be allocated again."""
        self._cooling.difference_update(aside)
        for hole in aside:
            self._fresh.add(hole)

    def free(self, gone: Range) -> None:
        """Give a range back; its content is undefined afterwards."""
        assert self._held.get(gone.start) == gone, f"{gone} is freed twice, or was never allocated"
        del self._held[gone.start]
        self.used -= len(gone)
        self._warm.add(gone)

    @property
    def num_ranges(self) -> int:
        return len(self._held)

    def check(self) -> None:
        """Every byte is held, warm, cooling or fresh, and only one of them; the budget is kept; holes are joined."""
        parts = [*self._held.values(), *self._warm, *self._cooling, *self._fresh]
        parts.sort(key=lambda part: part.start)
        edges = [0, *(edge for part in parts for edge in (part.start, part.stop)), len(self.buffer)]
        assert edges == sorted(edges) and edges[::2] == edges[1::2], "a byte is lost or in two ranges"
        assert all(len(part) > 0 and len(part) % self.granule == 0 for part in parts), (
            "a range is no multiple of a page"
        )
        assert self.used == sum(map(len, self._held.values())), "used bytes are not those of the ranges"
        assert self.used + self._warm.total <= self.capacity, "more memory is used than the budget"
        self._warm.check()
        self._fresh.check()


class _Holes:
    """Disjoint ranges in order, joined where they touch."""

    def __init__(self) -> None:
        self._holes: list[Range] = []
        self.total = 0

    def __iter__(self) -> Iterator[Range]:
        return iter(self._holes)

    def add(self, hole: Range) -> None:
        at = bisect_left(self._holes, hole.start, key=lambda other: other.start)
        begin, end, start, stop = at, at, hole.start, hole.stop
        if at and self._holes[at - 1].stop == start:
            begin, start = at - 1, self._holes[at - 1].start
        if at < len(self._holes) and self._holes[at].start == stop:
            end, stop = at + 1, self._holes[at].stop
        self._holes[begin:end] = [Range(start, stop)]
        self.total += len(hole)

    def take(self, size: int) -> Range | None:
        """The beginning of the first hole that holds `size` bytes."""
        for number, hole in enumerate(self._holes):
            if len(hole) >= size:
                found, rest = Range(hole.start, hole.start + size), Range(hole.start + size, hole.stop)
                self._holes[number : number + 1] = [rest] if len(rest) else []
                self.total -= size
                return found
        return None

    def pop(self) -> Range:
        hole = self._holes.pop()
        self.total -= len(hole)
        return hole

    def check(self) -> None:
        assert self.total == sum(map(len, self._holes)), "the bytes of holes are not their sum"
        pairs = zip(self._holes, self._holes[1:], strict=False)
        assert all(one.stop < other.start for one, other in pairs), "two holes are not joined, or out of order"


def _reserved(capacity: int) -> mmap.mmap:
    """Addresses for a pool, as many as the system gives; pages are zero, and taken as they are first written."""
    if sys.platform == "win32":
        return mmap.mmap(-1, capacity)
    for spread in _SPREAD:
        try:
            made = mmap.mmap(-1, capacity * spread, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE)
        except OSError:
            continue
        if hasattr(mmap, "MADV_HUGEPAGE"):
            with suppress(OSError):  # kernels read a tenth faster from pages of 2 MiB
                made.madvise(mmap.MADV_HUGEPAGE)
        return made
    raise MemoryError(f"The system does not give {capacity} bytes of addresses.")


def _give_back(memory: mmap.mmap, address: int, hole: Range) -> None:
    """By the C library, where it can be called: Python's own `madvise` would keep the interpreter meanwhile."""
    if not hasattr(mmap, "MADV_DONTNEED"):
        return
    if (madvise := _madvise()) is None or madvise(address + hole.start, len(hole), mmap.MADV_DONTNEED):
        memory.madvise(mmap.MADV_DONTNEED, hole.start, len(hole))


@cache
def _madvise() -> Callable[[int, int, int], int] | None:
    try:
        found = ctypes.CDLL(None).madvise
    except (OSError, AttributeError, TypeError):
        return None
    found.argtypes, found.restype = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int), ctypes.c_int
    called: Callable[[int, int, int], int] = found
    return called

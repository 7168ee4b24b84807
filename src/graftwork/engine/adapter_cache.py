"""AdapterCache: which adapter versions are resident, where in memory, and who still needs them.

A version is known by its digest alone. Loader threads insert, the loop thread pins and unpins; one lock guards the
books, and weights are copied outside it, into memory that nobody can see yet.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection

import numpy as np
import torch

from graftwork.access.tenants import LOCAL
from graftwork.adapters.outline import Outline
from graftwork.engine.form_image import FormImage
from graftwork.engine.range_pool import Range, RangePool
from graftwork.engine.residents import InMemory, Resident, Residents
from graftwork.engine.slot_tables import empty_slots, fill_slot
from graftwork.errors import Conflict, Refused, Unavailable

#: Most versions that are resident at a time; the tables of slots take memory only where they are written.
MAX_RESIDENT = 1 << 14
#: How often a waiting insert looks whether it was called off, in seconds.
_LOOK_S = 0.05


class CalledOff(Unavailable):
    """Nobody waits for this adapter any more, or nobody did; whoever has come to want it since asks anew."""


class NoRoom(Unavailable):
    """What may not leave adapter memory holds too much of it; waiting would not help."""


class AdapterCache:
    """Owns adapter memory, the slots, and the pins.

    What leaves has no pin; of the tenant that holds most, the version that was let go of longest ago.
    """

    def __init__(
        self, outline: Outline, dtype: torch.dtype, cache_bytes: int, clock: Callable[[], float] = time.time
    ) -> None:
        self._pool = RangePool(cache_bytes)
        self._dtype, self._clock = dtype, clock
        slots = min(MAX_RESIDENT, self._pool.capacity // self._pool.granule)
        self.slots = empty_slots(slots, outline, self._pool.buffer.view(dtype))
        self._free_slots = list(range(slots - 1, -1, -1))
        self._books = Residents()
        self._short: dict[str, float] = {}  # digest → since when its insert waits for room
        self._lock = threading.Lock()
        self._space = threading.Condition(self._lock)
        #: Versions that left memory since the start.
        self.num_evictions = 0
        #: How often a version that was kept has been let go of.
        self.num_let_go = 0

    # -- the loop thread -------------------------------------------------------------------------------------------

    def pin(self, digest: str) -> int | None:
        """The slot of a resident version, kept resident until `unpin`; None when it is not resident."""
        with self._lock:
            if (one := self._books.get(digest)) is None:
                return None
            self._books.change(digest, pins=1)
            one.used_s, one.uses = self._clock(), one.uses + 1
            return one.slot

    def unpin(self, digest: str) -> None:
        """Give back one pin; the version stays resident until its memory is needed, or leaves if it is to leave."""
        with self._space:
            self._change(digest, pins=-1)

    # -- loader threads --------------------------------------------------------------------------------------------

    def insert(
        self, digest: str, image: FormImage, deadline: float, wanted: Callable[[], bool], *,
        tenant: str = LOCAL, label: str = "", instead_of: Collection[str] | None = None,
    ) -> None:  # fmt: skip
        """Make a version resident, with one pin for the caller; waits for pinned versions to be let go of.

        `deadline` is of `time.monotonic`; on any error the books are as before. With `instead_of` it waits for nobody:
        room is what is free, and what those idle versions hold.

        Raises:
            Refused: when the version could not fit even in an empty cache.
            NoRoom: when what is kept leaves it no room, however long it waits.
            CalledOff: when `wanted` says no while it waits, or when it has no room with `instead_of`.
            Unavailable: when there was no room until the deadline.
        """
        assert image.dtype == self._dtype, "kernels read slices in the serving dtype"
        size = self._pool.rounded(image.data.nbytes)
        if size > self._pool.capacity:
            raise Refused(
                f"The adapter needs {size} bytes, more than adapter_cache_bytes ({self._pool.capacity}) holds; raise "
                "it to serve this adapter."
            )
        reserved = self._reserve(digest, tenant, label, size, deadline, wanted, instead_of)
        if reserved is None:
            return
        try:
            there = self._pool.buffer[reserved.where.start : reserved.where.start + image.data.nbytes]
            np.copyto(there.numpy(), image.data.numpy())  # torch would bring a team of threads, beside the loop's
            fill_slot(self.slots, reserved.slot, image, reserved.where.start, there)
        except BaseException:
            with self._space:
                self._give_back(self._books.give_up(digest))
            raise
        with self._lock:
            self._books.filled(digest)

    def _reserve(
        self, digest: str, tenant: str, label: str, size: int, deadline: float, wanted: Callable[[], bool],
        instead_of: Collection[str] | None,
    ) -> Resident | None:  # fmt: skip
        """A slot and a range; None when the version is resident already, which is then pinned."""
        try:
            while True:
                with self._space:
                    if (there := self._books.get(digest)) is not None:
                        there.leaving = False
                        self._books.change(digest, pins=1)
                        return None
                    where = self._take(tenant, size, instead_of)
                    if where is not None:
                        reserved = Resident(tenant, label, self._free_slots.pop(), where, self._clock())
                        self._books.reserve(digest, reserved)
                    aside = self._pool.set_aside(all_of_it=where is None and self._has_room(size, instead_of))
                    if where is None and not aside:
                        self._wait(digest, size, deadline, wanted, instead_of)
                self._pool.cool(aside)  # not under the lock, for which a step may wait
                with self._lock:
                    self._pool.cooled(aside)
                if where is not None:
                    return reserved
        finally:
            with self._lock:
                self._short.pop(digest, None)

    def _wait(
        self, digest: str, size: int, deadline: float, wanted: Callable[[], bool], instead_of: Collection[str] | None
    ) -> None:
        now = time.monotonic()
        self._short.setdefault(digest, now)
        if not wanted():
            raise CalledOff("Nobody waits for this adapter any more.")
        if instead_of is not None:
            raise CalledOff("There is no room for this adapter that nobody else needs.")
        if size > self._pool.capacity - self._books.kept_bytes:
            raise NoRoom(
                f"Pinned adapters hold {self._books.kept_bytes} of the {self._pool.capacity} bytes of "
                f"adapter_cache_bytes, and this one needs {size}; unpin one, or raise it."
            )
        if now >= deadline:
            raise Unavailable("Adapter memory is full of adapters in use; try again, or raise adapter_cache_bytes.")
        self._space.wait(min(deadline - now, _LOOK_S))

    def _has_room(self, size: int, instead_of: Collection[str] | None) -> bool:
        """Whether free bytes and idle versions together are enough."""
        books = self._books
        idle = books.idle_bytes if instead_of is None else books.bytes_of(books.idle_among(instead_of))
        return self._pool.capacity - self._pool.used + idle >= size

    def _take(self, tenant: str, size: int, instead_of: Collection[str] | None) -> Range | None:
        """A range, after evicting as many idle versions as needed; no eviction when that cannot suffice."""
        if not self._has_room(size, instead_of):
            return None
        while True:
            fits = bool(self._free_slots) and self._pool.used + size <= self._pool.capacity
            where = self._pool.allocate(size) if fits else None
            if where is not None or (fits and self._pool.in_pieces):  # cooling will help, and costs nobody his place
                return where
            if instead_of is None:
                gone = self._books.next_to_leave(tenant, size, self._clock())
            else:
                gone = next(iter(self._books.idle_among(instead_of)), None)
            if gone is None:
                return None
            self._evict(gone)

    def _change(self, digest: str, *, pins: int = 0, kept: bool | None = None) -> None:
        """Whoever changes who needs a version; one that is to leave does as soon as nobody does."""
        one = self._books.change(digest, pins=pins, kept=kept)
        if one.idle:
            self._space.notify_all()
            if one.leaving:
                self._evict(digest)

    def _evict(self, digest: str) -> None:
        self._give_back(self._books.remove(digest))
        self.num_evictions += 1

    def _give_back(self, gone: Resident) -> None:
        self.slots.parts[gone.slot] = {}  # lets go of what parts keep beside their weights
        self._pool.free(gone.where)
        self._free_slots.append(gone.slot)
        self._space.notify_all()

    # -- anyone ----------------------------------------------------------------------------------------------------

    def keep(self, digest: str) -> bool:
        """Keep a resident version, in use or not, until `let_go`; False where it is not resident."""
        with self._lock:
            if (one := self._books.get(digest)) is None:
                return False
            one.leaving = False
            self._books.change(digest, kept=True)
            return True

    def stay(self, digest: str) -> bool:
        """Call off that a resident version leaves; False where it is not resident."""
        with self._lock:
            if (one := self._books.get(digest)) is None:
                return False
            one.leaving = False
            return True

    def let_go(self, digest: str) -> None:
        """The opposite of `keep`; nothing happens where it was not kept."""
        with self._space:
            if (one := self._books.get(digest)) is not None and one.kept:
                self._change(digest, kept=False)
                self.num_let_go += 1
                self._space.notify_all()

    def unload(self, digest: str) -> int | None:
        """Let a version leave as soon as no row needs it; how many do, or None where it is not in memory (any more).

        Rows that come meanwhile are served from it still: what leaves is memory, not a right to be answered.

        Raises:
            Conflict: it is kept.
        """
        with self._space:
            if (one := self._books.get(digest)) is None:
                return None
            if one.kept:
                raise Conflict(f"{one.label or digest} is pinned in memory, by name or for a rollout; unpin it first.")
            one.leaving = True
            self._change(digest)
            return one.pins or None

    def leaving(self, digest: str) -> int | None:
        """How many rows a version that is to leave waits for; None where it left, or was wanted again."""
        with self._lock:
            one = self._books.get(digest)
            return one.pins if one is not None and one.leaving else None

    @property
    def resident(self) -> dict[str, int]:
        """Digest → pins of every resident version, one more where it is kept."""
        with self._lock:
            found = self._books.items()
        return {digest: one.pins + one.kept for digest, one in found}

    def in_memory(self) -> dict[str, InMemory]:
        """Every resident version, by digest."""
        with self._lock:  # no longer than it takes to copy the list: a step may wait for it
            found = self._books.items()
        return {digest: one.told for digest, one in found}

    @property
    def short_of_room(self) -> dict[str, float]:
        """Digest → since when (`time.monotonic`) its insert has waited for room."""
        with self._lock:
            return dict(self._short)

    @property
    def used_bytes(self) -> int:
        """Bytes of adapter memory that versions hold: their tensors, each at a multiple of 64, in whole pages."""
        with self._lock:
            return self._pool.used

    @property
    def capacity_bytes(self) -> int:
        """Bytes of adapter memory in all."""
        return self._pool.capacity

    def check(self) -> None:
        """Ranges and slots are each free or held by exactly one version; pins and queues agree with them."""
        with self._lock:
            self._pool.check()
            holders = self._books.check(self._pool.used, self._free_slots, len(self.slots.parts))
            assert holders == self._pool.num_ranges, "a range is lost or held twice"

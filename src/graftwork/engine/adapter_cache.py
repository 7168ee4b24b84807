"""AdapterCache: which adapter versions are resident, where in memory, and who still needs them.

A version is known by its digest alone. Loader threads insert, the loop thread pins and unpins; one lock guards the
books, and weights are copied outside it, into memory that nobody can see yet.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection
from dataclasses import dataclass

import numpy as np
import torch

from graftwork.access.tenants import LOCAL
from graftwork.adapters.outline import Outline
from graftwork.adapters.serving_form import Part, Site, Traits
from graftwork.artifacts.eviction import Holding, next_to_leave
from graftwork.engine.form_image import VECTORS, FormImage, weights_within
from graftwork.engine.range_pool import Range, RangePool
from graftwork.errors import Conflict, Refused, Unavailable
from graftwork.kernels.affine import NOTHING, AffineSlots
from graftwork.kernels.lowrank import LowRankSlots
from graftwork.models.adapter_slots import AdapterSlots

#: Most versions that are resident at a time; the tables of slots take memory only where they are written.
MAX_RESIDENT = 1 << 14
#: How often a waiting insert looks whether it was called off, in seconds.
_LOOK_S = 0.05


class CalledOff(Unavailable):
    """Nobody waits for this adapter any more, or nobody did; whoever has come to want it since asks anew."""


class NoRoom(Unavailable):
    """What may not leave adapter memory holds too much of it; waiting would not help."""


@dataclass
class _Resident:
    tenant: str
    label: str
    slot: int
    where: Range
    used_s: float
    pins: int = 1  # of rows that run and loads that have just ended
    kept: bool = False  # until somebody lets go of it
    leaving: bool = False  # as soon as nobody needs it
    uses: int = 0

    @property
    def idle(self) -> bool:
        return not self.pins and not self.kept


@dataclass(frozen=True)
class InMemory:
    """One resident version: its bytes, who needs it, and when a row last took it (`time.time`)."""

    tenant: str
    label: str
    bytes: int
    pins: int
    kept: bool
    leaving: bool
    used_s: float
    uses: int


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
        shape, buffer = (slots, len(outline.linears)), self._pool.buffer.view(dtype)
        lowrank = LowRankSlots(np.zeros(shape, np.int32), np.zeros(shape, np.int64), np.zeros(shape, np.int64), buffer)
        scale_in, scale_out, shift = (np.zeros(shape, np.int64) for _ in VECTORS)  # written where `any` is true
        affine = AffineSlots(scale_in, scale_out, shift, np.zeros(slots, np.bool_), buffer)
        self.slots = AdapterSlots(lowrank, affine, parts=[{}] * slots, traits=[Traits()] * slots)
        self._free_slots = list(range(slots - 1, -1, -1))
        self._resident: dict[str, _Resident] = {}
        self._filling: dict[str, _Resident] = {}  # reserved by an insert that still copies; nobody sees them
        self._idle: dict[str, OrderedDict[str, None]] = {}  # by tenant, who was let go of longest ago first
        self._held: Counter[str] = Counter()  # bytes by tenant
        self._idle_bytes = self._kept_bytes = 0
        self._short: dict[str, float] = {}  # digest → since when its insert waits for room
        self._lock = threading.Lock()
        self._space = threading.Condition(self._lock)
        #: Versions that left memory since the start.
        self.num_evictions = 0

    # -- the loop thread -------------------------------------------------------------------------------------------

    def pin(self, digest: str) -> int | None:
        """The slot of a resident version, kept resident until `unpin`; None when it is not resident."""
        with self._lock:
            resident = self._resident.get(digest)
            if resident is None:
                return None
            self._change(digest, resident, pins=1)
            resident.used_s, resident.uses = self._clock(), resident.uses + 1
            return resident.slot

    def unpin(self, digest: str) -> None:
        """Give back one pin; the version stays resident until its memory is needed, or leaves if it is to leave."""
        with self._space:
            resident = self._resident[digest]
            assert resident.pins > 0, f"{digest} is unpinned more often than pinned"
            self._change(digest, resident, pins=-1)
            if not resident.pins:
                self._space.notify_all()

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
            self._write(reserved.slot, image, reserved.where.start, there)
        except BaseException:
            with self._space:
                self._give_back(self._filling.pop(digest))
            raise
        with self._lock:
            self._resident[digest] = self._filling.pop(digest)

    def _reserve(
        self, digest: str, tenant: str, label: str, size: int, deadline: float, wanted: Callable[[], bool],
        instead_of: Collection[str] | None,
    ) -> _Resident | None:  # fmt: skip
        """A slot and a range; None when the version is resident already, which is then pinned."""
        try:
            while True:
                with self._space:
                    if (resident := self._resident.get(digest)) is not None:
                        resident.leaving = False
                        self._change(digest, resident, pins=1)
                        return None
                    where = self._take(tenant, size, instead_of)
                    if where is not None:
                        reserved = _Resident(tenant, label, self._free_slots.pop(), where, self._clock())
                        self._filling[digest] = reserved
                        self._held[tenant] += size
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
        if size > self._pool.capacity - self._kept_bytes:
            raise NoRoom(
                f"Pinned adapters hold {self._kept_bytes} of the {self._pool.capacity} bytes of adapter_cache_bytes, "
                f"and this one needs {size}; unpin one, or raise it."
            )
        if now >= deadline:
            raise Unavailable("Adapter memory is full of adapters in use; try again, or raise adapter_cache_bytes.")
        self._space.wait(min(deadline - now, _LOOK_S))

    def _has_room(self, size: int, instead_of: Collection[str] | None) -> bool:
        """Whether free bytes and idle versions together are enough."""
        idle = self._idle_bytes
        if instead_of is not None:
            among = [one for digest in instead_of if (one := self._resident.get(digest)) is not None and one.idle]
            idle = sum(len(one.where) for one in among)
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
            gone = self._next_to_leave(tenant, size) if instead_of is None else self._first_idle(instead_of)
            if gone is None:
                return None
            self._evict(gone)

    def _next_to_leave(self, tenant: str, size: int) -> str | None:
        """By the rule of all tiers, as if what is to come were there already."""
        if not self._idle:
            return None
        holdings = {
            owner: Holding(self._held[owner] + size * (owner == tenant), self._resident[next(iter(queue))].used_s)
            for owner, queue in self._idle.items()
        }
        return next(iter(self._idle[next_to_leave(holdings, self._clock())]))

    def _first_idle(self, digests: Collection[str]) -> str | None:
        return next((digest for digest in digests if (one := self._resident.get(digest)) and one.idle), None)

    def _write(self, slot: int, image: FormImage, start: int, there: torch.Tensor) -> None:
        """Fill a slot's tables for an image whose bytes were copied to `there`, which begins at byte `start`."""
        lowrank, affine, itemsize = self.slots.lowrank, self.slots.affine, self._dtype.itemsize
        sites, ranks, a, b = image.slices
        lowrank.rank[slot] = 0
        lowrank.rank[slot, sites] = ranks
        lowrank.a_offset[slot, sites] = (start + a) // itemsize
        lowrank.b_offset[slot, sites] = (start + b) // itemsize
        affine.any[slot] = image.has_vectors
        if image.has_vectors:
            for name in VECTORS:
                sites, begin = image.vectors[name]
                table = getattr(affine, name)
                table[slot] = NOTHING
                table[slot, sites] = (start + begin) // itemsize
        weights = weights_within(there, image.pieces)
        parts: dict[Site, tuple[Part, ...]] = {}
        for part, pieces in image.parts:
            placed = part.placed({name: weights[number] for name, number in pieces.items()})
            parts[part.site] = (*parts.get(part.site, ()), placed)
        self.slots.parts[slot] = parts
        self.slots.traits[slot] = image.traits

    def _change(self, digest: str, resident: _Resident, *, pins: int = 0, kept: bool | None = None) -> None:
        """Whatever changes who needs a version goes through here: idle ones queue up to leave."""
        size, was_idle, was_kept = len(resident.where), resident.idle, resident.kept
        resident.pins += pins
        resident.kept = resident.kept if kept is None else kept
        self._kept_bytes += size * (resident.kept - was_kept)
        if was_idle and not resident.idle:
            queue = self._idle[resident.tenant]
            del queue[digest]
            if not queue:
                del self._idle[resident.tenant]
            self._idle_bytes -= size
        elif resident.idle and not was_idle:
            self._idle.setdefault(resident.tenant, OrderedDict())[digest] = None
            self._idle_bytes += size
        if resident.idle and resident.leaving:
            self._evict(digest)

    def _evict(self, digest: str) -> None:
        gone = self._resident[digest]
        assert gone.idle, f"{digest} is in use"
        self._change(digest, gone, pins=1)  # out of the queue
        del self._resident[digest]
        self._give_back(gone)
        self.num_evictions += 1

    def _give_back(self, gone: _Resident) -> None:
        self.slots.parts[gone.slot] = {}  # lets go of what parts keep beside their weights
        self._pool.free(gone.where)
        self._free_slots.append(gone.slot)
        self._held[gone.tenant] -= len(gone.where)
        if not self._held[gone.tenant]:
            del self._held[gone.tenant]
        self._space.notify_all()

    # -- anyone ----------------------------------------------------------------------------------------------------

    def keep(self, digest: str) -> bool:
        """Keep a resident version, in use or not, until `let_go`; False where it is not resident."""
        with self._lock:
            if (resident := self._resident.get(digest)) is None:
                return False
            resident.leaving = False
            self._change(digest, resident, kept=True)
            return True

    def stay(self, digest: str) -> bool:
        """Call off that a resident version leaves; False where it is not resident."""
        with self._lock:
            if (resident := self._resident.get(digest)) is None:
                return False
            resident.leaving = False
            return True

    def let_go(self, digest: str) -> None:
        """The opposite of `keep`; nothing happens where it was not kept."""
        with self._space:
            if (resident := self._resident.get(digest)) is not None and resident.kept:
                self._change(digest, resident, kept=False)
                self._space.notify_all()

    def unload(self, digest: str) -> int | None:
        """Let a version leave as soon as no row needs it; how many do, or None where it is not in memory (any more).

        Rows that come meanwhile are served from it still: what leaves is memory, not a right to be answered.

        Raises:
            Conflict: it is kept.
        """
        with self._space:
            if (resident := self._resident.get(digest)) is None:
                return None
            if resident.kept:
                raise Conflict("The adapter is pinned in memory; unpin it first.")
            resident.leaving = True
            self._change(digest, resident)
            return resident.pins if digest in self._resident else None

    def leaving(self, digest: str) -> int | None:
        """How many rows a version that is to leave waits for; None where it left, or was wanted again."""
        with self._lock:
            resident = self._resident.get(digest)
            return resident.pins if resident is not None and resident.leaving else None

    @property
    def resident(self) -> dict[str, int]:
        """Digest → pins of every resident version, one more where it is kept."""
        with self._lock:
            found = list(self._resident.items())
        return {digest: resident.pins + resident.kept for digest, resident in found}

    def in_memory(self) -> dict[str, InMemory]:
        """Every resident version, by digest."""
        with self._lock:  # no longer than it takes to copy the list: a step may wait for it
            found = list(self._resident.items())
        return {
            digest: InMemory(
                one.tenant, one.label, len(one.where), one.pins, one.kept, one.leaving, one.used_s, one.uses
            )
            for digest, one in found
        }  # fmt: skip

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
            residents = self._resident
            holders = [*residents.values(), *self._filling.values()]
            held = sum(len(holder.where) for holder in holders)
            assert len(holders) == self._pool.num_ranges and held == self._pool.used, "a range is lost or held twice"
            slots = [*(holder.slot for holder in holders), *self._free_slots]
            assert sorted(slots) == list(range(len(self.slots.parts))), "a slot is lost or held twice"
            assert all(one.pins >= 0 for one in residents.values()), "a pin count is negative"
            idle = {(one.tenant, digest) for digest, one in residents.items() if one.idle}
            queued = [(tenant, digest) for tenant, queue in self._idle.items() for digest in queue]
            assert len(queued) == len(idle) and set(queued) == idle, "a queue is not of who is idle"
            assert self._idle_bytes == sum(len(residents[digest].where) for _, digest in queued), "idle bytes"
            assert self._kept_bytes == sum(len(one.where) for one in residents.values() if one.kept), "kept bytes"
            assert self._held.total() == held and all(self._held.values()), "bytes of tenants are not those of ranges"
            assert not any(one.idle and one.leaving for one in residents.values()), "what is to leave stays"

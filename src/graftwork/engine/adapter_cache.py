"""AdapterCache: which adapter versions are resident, where in memory, and who still needs them.

A version is known by its digest alone. Loader threads insert, the loop thread pins and unpins; one lock guards the
books, and weights are copied outside it, into memory that nobody can see yet.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from graftwork.adapters.outline import Outline
from graftwork.adapters.serving_form import Part, Site, Traits
from graftwork.engine.form_image import VECTORS, FormImage, weights_within
from graftwork.engine.range_pool import Range, RangePool
from graftwork.errors import Refused, Unavailable
from graftwork.kernels.affine import NOTHING, AffineSlots
from graftwork.kernels.lowrank import LowRankSlots
from graftwork.models.adapter_slots import AdapterSlots

#: Most versions that are resident at a time; the tables of slots take memory only where they are written.
MAX_RESIDENT = 1 << 14
#: How often a waiting insert looks whether it was called off, in seconds.
_LOOK_S = 0.05


@dataclass
class _Resident:
    slot: int
    where: Range
    pins: int


class AdapterCache:
    """Owns adapter memory, the slots, and the pins; evicts the least recently used version that has no pin."""

    def __init__(self, outline: Outline, dtype: torch.dtype, cache_bytes: int) -> None:
        self._pool = RangePool(cache_bytes)
        self._dtype = dtype
        slots = min(MAX_RESIDENT, self._pool.capacity // self._pool.granule)
        shape, buffer = (slots, len(outline.linears)), self._pool.buffer.view(dtype)
        lowrank = LowRankSlots(np.zeros(shape, np.int32), np.zeros(shape, np.int64), np.zeros(shape, np.int64), buffer)
        scale_in, scale_out, shift = (np.zeros(shape, np.int64) for _ in VECTORS)  # written where `any` is true
        affine = AffineSlots(scale_in, scale_out, shift, np.zeros(slots, np.bool_), buffer)
        self.slots = AdapterSlots(lowrank, affine, parts=[{}] * slots, traits=[Traits()] * slots)
        self._free_slots = list(range(slots - 1, -1, -1))
        self._resident: OrderedDict[str, _Resident] = OrderedDict()  # least recently used first
        self._filling: dict[str, _Resident] = {}  # reserved by an insert that still copies; nobody sees them
        self._short: dict[str, float] = {}  # digest → since when its insert waits for room
        self._lock = threading.Lock()
        self._space = threading.Condition(self._lock)

    # -- the loop thread -------------------------------------------------------------------------------------------

    def pin(self, digest: str) -> int | None:
        """The slot of a resident version, kept resident until `unpin`; None when it is not resident."""
        with self._lock:
            resident = self._resident.get(digest)
            if resident is None:
                return None
            resident.pins += 1
            self._resident.move_to_end(digest)
            return resident.slot

    def unpin(self, digest: str) -> None:
        """Give back one pin; the version stays resident until its memory is needed."""
        with self._space:
            resident = self._resident[digest]
            assert resident.pins > 0, f"{digest} is unpinned more often than pinned"
            resident.pins -= 1
            if not resident.pins:
                self._space.notify_all()

    # -- loader threads --------------------------------------------------------------------------------------------

    def insert(self, digest: str, image: FormImage, deadline: float, wanted: Callable[[], bool]) -> None:
        """Make a version resident, with one pin for the caller; waits for pinned versions to be let go of.

        `deadline` is of `time.monotonic`. On any error the books are as before.

        Raises:
            Refused: when the version could not fit even in an empty cache.
            Unavailable: when there was no room until the deadline, or `wanted` says no while it waits.
        """
        assert image.dtype == self._dtype, "kernels read slices in the serving dtype"
        size = self._pool.rounded(image.data.nbytes)
        if size > self._pool.capacity:
            raise Refused(
                f"The adapter needs {size} bytes, more than adapter_cache_bytes ({self._pool.capacity}) holds; raise "
                "it to serve this adapter."
            )
        reserved = self._reserve(digest, size, deadline, wanted)
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

    def _reserve(self, digest: str, size: int, deadline: float, wanted: Callable[[], bool]) -> _Resident | None:
        """A slot and a range; None when the version is resident already, which is then pinned."""
        with self._space:
            try:
                return self._wait_for_room(digest, size, deadline, wanted)
            finally:
                self._short.pop(digest, None)

    def _wait_for_room(self, digest: str, size: int, deadline: float, wanted: Callable[[], bool]) -> _Resident | None:
        while True:
            if (resident := self._resident.get(digest)) is not None:
                resident.pins += 1
                return None
            where = self._take(size)
            if where is not None:
                reserved = self._filling[digest] = _Resident(self._free_slots.pop(), where, pins=1)
                return reserved
            now = time.monotonic()
            self._short.setdefault(digest, now)
            if not wanted():
                raise Unavailable("Nobody waits for this adapter any more.")
            if now >= deadline:
                raise Unavailable("Adapter memory is full of adapters in use; try again, or raise adapter_cache_bytes.")
            self._space.wait(min(deadline - now, _LOOK_S))

    def _take(self, size: int) -> Range | None:
        """A range, after evicting as many unpinned versions as needed; no eviction when that cannot suffice."""
        idle = [digest for digest, resident in self._resident.items() if not resident.pins]
        room = self._pool.capacity - self._pool.used + sum(len(self._resident[digest].where) for digest in idle)
        if room < size or not (self._free_slots or idle):
            return None
        where = self._pool.allocate(size) if self._free_slots else None
        for digest in idle:
            if where is not None:
                break
            self._give_back(self._resident.pop(digest))
            where = self._pool.allocate(size)
        return where

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

    def _give_back(self, gone: _Resident) -> None:
        self.slots.parts[gone.slot] = {}  # lets go of what parts keep beside their weights
        self._pool.free(gone.where)
        self._free_slots.append(gone.slot)
        self._space.notify_all()

    # -- anyone ----------------------------------------------------------------------------------------------------

    @property
    def resident(self) -> dict[str, int]:
        """Digest → pins of every resident version, least recently used first."""
        with self._lock:
            return {digest: resident.pins for digest, resident in self._resident.items()}

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

    def check(self) -> None:
        """Ranges and slots are each free or held by exactly one version; no pin is negative."""
        with self._lock:
            self._pool.check()
            holders = [*self._resident.values(), *self._filling.values()]
            held = sum(len(holder.where) for holder in holders)
            assert len(holders) == self._pool.num_ranges and held == self._pool.used, "a range is lost or held twice"
            slots = [*(holder.slot for holder in holders), *self._free_slots]
            assert sorted(slots) == list(range(len(self.slots.parts))), "a slot is lost or held twice"
            assert all(resident.pins >= 0 for resident in self._resident.values()), "a pin count is negative"

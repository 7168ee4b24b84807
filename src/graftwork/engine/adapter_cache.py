"""AdapterCache: which adapter versions are resident, in which pages, and who still needs them.

A version is known by its digest alone. Loader threads insert, the loop thread pins and unpins; one lock guards the
books, and weights are copied outside it, into pages that nobody can see yet.
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
from graftwork.adapters.serving_form import Part, ServingForm, Site, Traits, Weights
from graftwork.engine.page_layout import VECTORS, Piece, Spot, distinct_weights, layout, pieces_of, vectors_of
from graftwork.engine.page_pool import PagePool
from graftwork.errors import Refused, Unavailable
from graftwork.kernels.affine import NOTHING, AffineSlots
from graftwork.kernels.lowrank import LowRankSlots
from graftwork.models.adapter_slots import AdapterSlots

_MIN_PAGE_ELEMENTS = 1 << 16
#: Every tensor begins at a multiple of it: a cache line, which is also what wider dtypes need.
_ALIGN_BYTES = 64
#: How often a waiting insert looks whether it was called off, in seconds.
_LOOK_S = 0.05


def adapter_page_elements(outline: Outline, max_rank: int) -> int:
    """Numbers in one page: enough for half a pair of the largest rank on the widest layer."""
    widest = max(max(site.in_features, site.out_features) for site in outline.linears)
    return max(_MIN_PAGE_ELEMENTS, 1 << (max_rank * widest - 1).bit_length())


@dataclass
class _Resident:
    slot: int
    pages: list[int]
    pins: int


class AdapterCache:
    """Owns the adapter pages, the slots, and the pins; evicts the least recently used version that has no pin."""

    def __init__(self, outline: Outline, dtype: torch.dtype, cache_bytes: int, max_rank: int) -> None:
        page_elements = adapter_page_elements(outline, max_rank)
        self._pool = PagePool(max(1, cache_bytes // (page_elements * dtype.itemsize)), page_elements, dtype)
        pages, shape = self._pool.num_pages, (self._pool.num_pages, len(outline.linears))
        buffer = self._pool.buffer
        lowrank = LowRankSlots(np.zeros(shape, np.int32), np.zeros(shape, np.int64), np.zeros(shape, np.int64), buffer)
        scale_in, scale_out, shift = (np.full(shape, NOTHING, np.int64) for _ in VECTORS)
        affine = AffineSlots(scale_in, scale_out, shift, np.zeros(pages, np.bool_), buffer)
        #: One per page: every resident version holds at least one.
        self.slots = AdapterSlots(lowrank, affine, parts=[{}] * pages, traits=[Traits()] * pages)
        self._free_slots = list(range(pages - 1, -1, -1))
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
        """Give back one pin; the version stays resident until its pages are needed."""
        with self._space:
            resident = self._resident[digest]
            assert resident.pins > 0, f"{digest} is unpinned more often than pinned"
            resident.pins -= 1
            if not resident.pins:
                self._space.notify_all()

    # -- loader threads --------------------------------------------------------------------------------------------

    def insert(self, digest: str, form: ServingForm, deadline: float, wanted: Callable[[], bool]) -> None:
        """Make a version resident, with one pin for the caller; waits for pinned versions to be let go of.

        `deadline` is of `time.monotonic`. On any error the books are as before.

        Raises:
            Refused: when the version could not fit even in an empty cache.
            Unavailable: when there was no room until the deadline, or `wanted` says no while it waits.
        """
        pieces = list(pieces_of(form, self._pool.buffer.itemsize))
        spots, count = layout(pieces, self._pool.page_elements, _ALIGN_BYTES // self._pool.buffer.itemsize)
        if count > self._pool.num_pages:
            raise Refused(
                f"The adapter needs {count * self._pool.page_bytes} bytes, more than adapter_cache_bytes "
                f"({self._pool.num_pages * self._pool.page_bytes}) holds; raise it to serve this adapter."
            )
        reserved = self._reserve(digest, count, deadline, wanted)
        if reserved is None:
            return
        slot, pages = reserved
        try:
            self._write(
                slot, form, [self._copied(piece, pages, where) for piece, where in zip(pieces, spots, strict=True)]
            )
        except BaseException:
            with self._space:
                del self._filling[digest]
                self._give_back(slot, pages)
            raise
        with self._lock:
            self._resident[digest] = self._filling.pop(digest)

    def _reserve(
        self, digest: str, count: int, deadline: float, wanted: Callable[[], bool]
    ) -> tuple[int, list[int]] | None:
        """A slot and pages; None when the version is resident already, which is then pinned."""
        with self._space:
            try:
                return self._wait_for_room(digest, count, deadline, wanted)
            finally:
                self._short.pop(digest, None)

    def _wait_for_room(
        self, digest: str, count: int, deadline: float, wanted: Callable[[], bool]
    ) -> tuple[int, list[int]] | None:
        while True:
            if (resident := self._resident.get(digest)) is not None:
                resident.pins += 1
                return None
            pages = self._take(count)
            if pages is not None:
                reserved = self._filling[digest] = _Resident(self._free_slots.pop(), pages, pins=1)
                return reserved.slot, reserved.pages
            now = time.monotonic()
            self._short.setdefault(digest, now)
            if not wanted():
                raise Unavailable("Nobody waits for this adapter any more.")
            if now >= deadline:
                raise Unavailable("Adapter memory is full of adapters in use; try again, or raise adapter_cache_bytes.")
            self._space.wait(min(deadline - now, _LOOK_S))

    def _take(self, count: int) -> list[int] | None:
        """Pages, after evicting as many unpinned versions as needed; None and no eviction when that cannot suffice."""
        idle = [digest for digest, resident in self._resident.items() if not resident.pins]
        room = self._pool.num_free + sum(len(self._resident[digest].pages) for digest in idle)
        if room < count:
            return None
        for digest in idle:
            if self._pool.num_free >= count:
                break
            gone = self._resident.pop(digest)
            self._give_back(gone.slot, gone.pages)
        return self._pool.allocate(count)

    def _copied(self, piece: Piece, pages: list[int], spots: list[Spot]) -> list[tuple[int, torch.Tensor]]:
        """Copy a piece into its pages; where each chunk begins in the pool, and the chunk there."""
        chunks = []
        rows = piece.tensor.reshape(piece.rows, -1)
        for spot in spots:
            start = pages[spot.page] * self._pool.page_elements + spot.within
            count = spot.rows.stop - spot.rows.start
            there = self._pool.buffer[start : start + count * piece.row_elements].view(piece.tensor.dtype)
            there = there.view(count, -1) if there.numel() else rows[spot.rows]
            there.copy_(rows[spot.rows])
            chunks.append((start, there))
        return chunks

    def _write(self, slot: int, form: ServingForm, copied: list[list[tuple[int, torch.Tensor]]]) -> None:
        """Fill a slot's tables; `copied` is in the order of `pieces_of`."""
        lowrank, affine, where = self.slots.lowrank, self.slots.affine, iter(copied)
        lowrank.rank[slot] = 0
        for low in form.slices:
            lowrank.a_offset[slot, low.site] = next(where)[0][0]
            lowrank.b_offset[slot, low.site] = next(where)[0][0]
            lowrank.rank[slot, low.site] = low.rank
        for table in VECTORS:
            getattr(affine, table)[slot] = NOTHING
        for one in form.affines:
            for table in vectors_of(one):
                getattr(affine, table)[slot, one.site] = next(where)[0][0]
        affine.any[slot] = bool(form.affines)
        parts: dict[Site, tuple[Part, ...]] = {}
        shared = distinct_weights(form.parts)
        placed = {id(given): Weights(tuple(chunk for _, chunk in next(where))) for given in shared}
        for part in form.parts:
            weights = {name: placed[id(given)] for name, given in part.weights().items()}
            parts[part.site] = (*parts.get(part.site, ()), part.placed(weights))
        self.slots.parts[slot] = parts
        self.slots.traits[slot] = form.traits

    def _give_back(self, slot: int, pages: list[int]) -> None:
        self._pool.free(pages)
        self._free_slots.append(slot)
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
        with self._lock:
            return self._pool.num_used * self._pool.page_bytes

    def check(self) -> None:
        """Pages and slots are each free or held by exactly one version; no pin is negative."""
        with self._lock:
            self._pool.check()
            holders = [*self._resident.values(), *self._filling.values()]
            held = [page for holder in holders for page in holder.pages]
            slots = [holder.slot for holder in holders]
            assert len(set(held)) == len(held) == self._pool.num_used, "a page is lost or held twice"
            assert len({*slots, *self._free_slots}) == self._pool.num_pages, "a slot is lost or held twice"
            assert all(resident.pins >= 0 for resident in self._resident.values()), "a pin count is negative"

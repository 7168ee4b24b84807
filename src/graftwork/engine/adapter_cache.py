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
from graftwork.adapters.serving_form import ServingForm
from graftwork.engine.page_pool import PagePool
from graftwork.errors import Refused, Unavailable
from graftwork.kernels.lowrank import LowRankSlots

_MIN_PAGE_ELEMENTS = 1 << 16
#: How often a waiting insert looks whether it was called off, in seconds.
_LOOK_S = 0.05


@dataclass
class _Resident:
    slot: int
    pages: list[int]
    pins: int


class AdapterCache:
    """Owns the adapter pages, the slots, and the pins; evicts the least recently used version that has no pin."""

    def __init__(self, outline: Outline, dtype: torch.dtype, cache_bytes: int, max_rank: int) -> None:
        widest = max(max(site.in_features, site.out_features) for site in outline.linears)
        page_elements = max(_MIN_PAGE_ELEMENTS, 1 << (max_rank * widest - 1).bit_length())
        self._pool = PagePool(max(1, cache_bytes // (page_elements * dtype.itemsize)), page_elements, dtype)
        shape = (self._pool.num_pages, len(outline.linears))  # every resident version holds at least one page
        self.slots = LowRankSlots(
            np.zeros(shape, np.int32), np.zeros(shape, np.int64), np.zeros(shape, np.int64), self._pool.buffer
        )
        self._free_slots = list(range(shape[0] - 1, -1, -1))
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
        places, count = _layout(form, self._pool.page_elements)
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
            self._write(slot, pages, form, places)
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

    def _write(self, slot: int, pages: list[int], form: ServingForm, places: list[tuple[int, int]]) -> None:
        size, where = self._pool.page_elements, iter(places)
        self.slots.rank[slot] = 0
        for piece in form.slices:
            for part, table in ((piece.a, self.slots.a_offset), (piece.b, self.slots.b_offset)):
                page, within = next(where)
                start = pages[page] * size + within
                self._pool.buffer[start : start + part.numel()] = part.reshape(-1)
                table[slot, piece.site] = start
            self.slots.rank[slot, piece.site] = piece.rank

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


def _layout(form: ServingForm, page_elements: int) -> tuple[list[tuple[int, int]], int]:
    """Where each half of each slice goes, as (page of this adapter, offset), and the number of pages.

    No matrix straddles two pages; those of one adapter fill a page before the next begins.
    """
    places: list[tuple[int, int]] = []
    page, within = 0, 0
    for piece in form.slices:
        for part in (piece.a, piece.b):
            if within + part.numel() > page_elements:
                page, within = page + 1, 0
            places.append((page, within))
            within += part.numel()
    return places, page + 1

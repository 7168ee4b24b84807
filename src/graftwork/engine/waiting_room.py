"""WaitingRoom: rows whose adapter is not pinned for them yet.

A row enters, its adapter is pinned at once when resident or else its load is started, and it leaves for the scheduler
when it holds its pin, or with an error when the load failed or took too long. So that a popular set cannot starve
another adapter, a load that has waited *for room* too long raises a barrier: until it is in, no other adapter row gets
a pin, and rows that have one and do not run yet are taken back, except the first of each load. So it waits for answers
that are under way, and never for a queue; then its own rows have as long to get into the batch. No load begins while
another is late, so those that wait are in one after the other: of `n` of them the last at `longest_wait_s`. A load that
is merely slow holds nobody back. Base rows never wait here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from graftwork.engine.adapter_cache import AdapterCache
from graftwork.engine.adapter_loader import AdapterLoader
from graftwork.engine.sequence import Sequence

#: Time without room after which a load holds back other rows, and least time between two such loads, in seconds.
BARRIER_AGE_S = 1.0


def longest_wait_s(loads: int, answer_s: float, load_s: float) -> float:
    """Longest time until a version is in memory, when so many wait for room that others' answers take.

    Each may have to wait for a second, for the longest answer that is under way, and for one that had a pin before it
    and was still to begin; then it is loaded.
    """
    return loads * (BARRIER_AGE_S + 2 * answer_s + load_s)


@dataclass
class _Load:
    since: float
    rows: list[Sequence] = field(default_factory=list)


class WaitingRoom:
    """Owns the rows that wait and the pins of the rows that went on; used by the loop thread only."""

    def __init__(
        self, cache: AdapterCache, loader: AdapterLoader, load_timeout_s: float, clock: Callable[[], float]
    ) -> None:
        self._cache, self._loader, self._timeout_s, self._clock = cache, loader, load_timeout_s, clock
        self._loads: dict[str, _Load] = {}
        self._entered: list[Sequence] = []  # by arrival: new rows, and rows behind a barrier
        self._lifted = -math.inf  # when the last barrier was

    @property
    def look_again_s(self) -> float | None:
        """Longest time to sleep when nothing runs; None: until a message comes."""
        return BARRIER_AGE_S / 10 if self._entered or self._loads else None

    def enter(self, sequence: Sequence) -> None:
        self._entered.append(sequence)

    @property
    def barred(self) -> bool:
        """Whether a load has been short of room for so long that pins are for it alone."""
        return self._clock() - self._lifted > BARRIER_AGE_S and self._late()

    def take_back(self, sequences: list[Sequence]) -> None:
        """Rows that went on and do not run: they give their pins back and wait here again."""
        for sequence in sequences:
            self.leave(sequence)
        self._entered = sorted([*self._entered, *sequences], key=lambda row: row.arrival)

    def admit(self) -> list[Sequence]:
        """Rows that may go to the scheduler now, by arrival; loads are started for rows that need one."""
        ready, held = [], []
        barred, late = self.barred, self._late()
        for sequence in self._entered:
            if sequence.adapter is None:
                ready.append(sequence)
            elif barred and sequence.adapter.digest not in self._loads:
                held.append(sequence)
            elif self._pin(sequence):
                ready.append(sequence)
            elif late and sequence.adapter.digest not in self._loads:  # its load might be in before those that wait
                held.append(sequence)
            else:
                self._wait_for_load(sequence)
        self._entered = held
        return ready

    def arrived(self, digest: str) -> list[Sequence]:
        """The load of a version ended well: its rows, each with a pin of its own; the load's own pin is given back."""
        load = self._loads.pop(digest, None)
        rows = load.rows if load is not None else []
        if rows:
            self._lifted = self._clock()
            rows[0].may_stay = True
        for sequence in rows:
            pinned = self._pin(sequence)
            assert pinned, "the load's own pin keeps it resident"
        self._cache.unpin(digest)
        return rows

    def overdue(self) -> list[Sequence]:
        """Rows whose load has taken too long, whatever its thread hangs in; the caller fails them."""
        now = self._clock()
        return [row for load in self._loads.values() if now - load.since > self._timeout_s for row in load.rows]

    def failed(self, digest: str) -> list[Sequence]:
        """The load of a version failed: its rows, which have no pin."""
        load = self._loads.pop(digest, None)
        return load.rows if load is not None else []

    def called_off(self, digest: str) -> None:
        """Nobody wanted a version any more: rows that have come since wait for another load of it."""
        for sequence in self.failed(digest):
            self._wait_for_load(sequence)

    def leave(self, sequence: Sequence) -> None:
        """Give back what a row holds or waits for."""
        if sequence in self._entered:
            self._entered.remove(sequence)
        elif sequence.adapter is None:
            return
        elif sequence.slot is not None:
            sequence.slot = None
            self._cache.unpin(sequence.adapter.digest)
        elif (load := self._loads.get(sequence.adapter.digest)) is not None and sequence in load.rows:
            load.rows.remove(sequence)
            if not load.rows:
                self._loader.cancel(sequence.adapter.digest)

    def check(self) -> None:
        """Every row that waits is in one place, and none of them holds a pin."""
        rows = [*self._entered, *(row for load in self._loads.values() for row in load.rows)]
        assert len({id(row) for row in rows}) == len(rows), "a row waits twice"
        assert all(row.slot is None for row in rows), "a row that waits holds a pin"

    def _pin(self, sequence: Sequence) -> bool:
        assert sequence.adapter is not None, "base rows need no pin"
        sequence.slot = self._cache.pin(sequence.adapter.digest)
        return sequence.slot is not None

    def _wait_for_load(self, sequence: Sequence) -> None:
        assert sequence.adapter is not None, "base rows need no load"
        load = self._loads.get(sequence.adapter.digest)
        if load is None or not load.rows:  # a load that nobody waited for any more counts from now on
            load = self._loads[sequence.adapter.digest] = _Load(self._clock())
        load.rows.append(sequence)
        self._loader.start(sequence.adapter)

    def _late(self) -> bool:
        """Whether a version that rows wait for has been short of room for too long."""
        now = self._clock()
        late = [digest for digest, since in self._cache.short_of_room.items() if now - since > BARRIER_AGE_S]
        return any((load := self._loads.get(digest)) is not None and load.rows for digest in late)

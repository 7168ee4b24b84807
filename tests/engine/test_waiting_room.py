"""WaitingRoom: who gets a pin when, without starving anybody; with a cache and a loader that only take notes."""

from __future__ import annotations

import random
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graftwork.engine.request import AdapterHandle
from graftwork.engine.sampling_params import SamplingParams
from graftwork.engine.sequence import Sequence
from graftwork.engine.waiting_room import BARRIER_AGE_S, WaitingRoom, longest_wait_s
from support.scale import times


class NotedCache:
    """Resident versions and their pins; what it cannot pin is not resident."""

    def __init__(self) -> None:
        self.pins: dict[str, int] = {}
        self.short_of_room: dict[str, float] = {}

    def pin(self, digest: str) -> int | None:
        if digest not in self.pins:
            return None
        self.pins[digest] += 1
        return 0

    def unpin(self, digest: str) -> None:
        assert self.pins[digest] > 0
        self.pins[digest] -= 1


class NotedLoader:
    def __init__(self) -> None:
        self.started: list[str] = []
        self.cancelled: list[str] = []

    def start(self, handle: AdapterHandle) -> None:
        self.started.append(handle.digest)

    def cancel(self, digest: str) -> None:
        self.cancelled.append(digest)


class Room:
    def __init__(self) -> None:
        self.now, self.arrivals = 0.0, 0
        self.cache, self.loader = NotedCache(), NotedLoader()
        self.room = WaitingRoom(cast(Any, self.cache), cast(Any, self.loader), 10.0, lambda: self.now)

    def enter(self, digest: str | None) -> Sequence:
        self.arrivals += 1
        handle = AdapterHandle(digest, "local", digest) if digest else None
        unused = cast(Any, None)
        made = Sequence(str(self.arrivals), [1], 1, SamplingParams(), 0, 1, frozenset(), handle, unused, unused, unused)
        made.arrival = self.arrivals
        self.room.enter(made)
        return made

    def loaded(self, digest: str) -> list[Sequence]:
        self.room.check()
        self.cache.pins[digest] = 1  # the load's own
        rows = self.room.arrived(digest)
        self.room.check()
        return rows


@pytest.fixture
def room() -> Room:
    return Room()


def test_base_rows_and_resident_adapters_go_on_at_once(room: Room) -> None:
    room.cache.pins["a"] = 0
    rows = [room.enter(None), room.enter("a")]
    assert room.room.admit() == rows
    assert room.cache.pins == {"a": 1} and room.loader.started == []


def test_rows_of_one_load_go_on_together_each_with_its_pin(room: Room) -> None:
    rows = [room.enter("a") for _ in range(3)]
    assert room.room.admit() == []
    assert set(room.loader.started) == {"a"}
    assert room.loaded("a") == rows and room.cache.pins == {"a": 3}
    for row in rows:
        room.room.leave(row)
    assert room.cache.pins == {"a": 0}


def test_a_failed_load_hands_back_its_rows_and_is_forgotten(room: Room) -> None:
    row = room.enter("a")
    room.room.admit()
    assert room.room.failed("a") == [row] and room.room.failed("a") == []


def test_a_load_that_is_merely_slow_holds_nobody_back(room: Room) -> None:
    room.cache.pins["popular"] = 0
    room.enter("a")
    room.room.admit()
    room.now = 9.0
    later = room.enter("popular")
    assert room.room.admit() == [later]


def test_rows_of_a_load_that_hangs_are_overdue_whatever_its_thread_does(room: Room) -> None:
    row = room.enter("a")
    room.room.admit()
    room.now = 9.0
    assert room.room.overdue() == [] and room.room.look_again_s is not None
    room.now = 10.1
    assert room.room.overdue() == [row]
    room.room.leave(row)
    assert room.room.overdue() == [] and room.loader.cancelled == ["a"]


def test_a_load_without_room_for_too_long_holds_back_later_rows_but_not_the_base(room: Room) -> None:
    room.cache.pins["popular"] = 0
    starved = room.enter("a")
    room.room.admit()
    room.cache.short_of_room["a"] = 0.0
    early = room.enter("popular")
    assert room.room.admit() == [early]
    room.now = BARRIER_AGE_S + 0.1
    late, base = room.enter("popular"), room.enter(None)
    assert room.room.admit() == [base]
    assert room.room.look_again_s is not None
    del room.cache.short_of_room["a"]
    assert room.loaded("a") == [starved]
    assert room.room.admit() == [late] and room.room.look_again_s is None


def test_rows_that_do_not_run_give_their_pins_back_except_the_first_of_a_load(room: Room) -> None:
    room.cache.pins["popular"] = 0
    queued = [room.enter("popular") for _ in range(3)]
    starved = [room.enter("a"), room.enter("a")]
    assert room.room.admit() == queued and not room.room.barred
    room.cache.short_of_room["a"] = 0.0
    room.now = BARRIER_AGE_S + 0.1
    assert room.room.barred
    room.room.take_back(queued[1:])
    assert room.cache.pins["popular"] == 1 and all(row.slot is None for row in queued[1:])
    assert room.room.admit() == []
    del room.cache.short_of_room["a"]
    assert room.loaded("a") == starved and [row.may_stay for row in starved] == [True, False]
    assert room.room.admit() == queued[1:], "in the order in which they came"


def test_who_was_short_of_room_has_a_second_before_the_next_one_and_nobody_gets_in_between(room: Room) -> None:
    room.cache.pins["popular"] = 0
    room.enter("a"), room.enter("b")
    room.room.admit()
    room.cache.short_of_room.update(a=0.0, b=0.0)
    room.now = 5.0
    del room.cache.short_of_room["a"]
    room.loaded("a")
    late, popular = room.enter("c"), room.enter("popular")
    assert room.room.admit() == [popular] and "c" not in room.loader.started, "b is late"
    room.now = 5.0 + BARRIER_AGE_S + 0.1
    assert room.room.barred
    del room.cache.short_of_room["b"]
    room.loaded("b")
    room.room.admit()
    assert room.loader.started.count("c") == 1 and late.slot is None


class Machine(Room):
    """Memory for `room_for` adapters, `seats` rows at a time, and answers of `answer` ticks of a tenth of a second."""

    def __init__(self, room_for: int, seats: int, answer: int, luck: random.Random) -> None:
        super().__init__()
        self.room_for, self.seats, self.answer, self.luck = room_for, seats, answer, luck
        self.queue: list[Sequence] = []
        self.running: dict[str, tuple[Sequence, int]] = {}
        self.began: dict[str, float] = {}

    def tick(self) -> None:
        """As the loop does: what has ended leaves, loads find room, pins are given, places are taken."""
        self.now += 0.1
        for row, left in list(self.running.values()):
            self.running[row.id] = (row, left - 1)
            if left == 1:
                del self.running[row.id]
                self.room.leave(row)
        for digest in self.luck.sample(waiting := list(self.room._loads), len(waiting)):
            self._find_room(digest)
        if self.room.barred:
            recalled = [row for row in self.queue if not row.may_stay]
            self.queue = [row for row in self.queue if row.may_stay]
            self.room.take_back(recalled)
        self.queue += self.room.admit()
        while self.queue and len(self.running) < self.seats:
            row = self.queue.pop(0)
            self.running[row.id] = (row, self.answer)
            self.began[row.id] = self.now
        self.room.check()

    def _find_room(self, digest: str) -> None:
        idle = [one for one, pins in self.cache.pins.items() if not pins]
        if len(self.cache.pins) >= self.room_for and not idle:
            self.cache.short_of_room.setdefault(digest, self.now)
            return
        if len(self.cache.pins) >= self.room_for:
            del self.cache.pins[idle[0]]
        self.cache.short_of_room.pop(digest, None)
        self.cache.pins[digest] = 1
        self.queue += self.room.arrived(digest)


@settings(max_examples=times(40, 1000), deadline=None)
@given(
    room_for=st.integers(1, 3), seats=st.integers(1, 4), answer=st.integers(1, 20), others=st.integers(1, 4),
    greed=st.integers(1, 30), seed=st.integers(0, 999),
)  # fmt: skip
def test_every_adapter_is_in_memory_within_the_bound_however_popular_others_are(
    room_for: int, seats: int, answer: int, others: int, greed: int, seed: int
) -> None:
    machine = Machine(room_for, seats, answer, random.Random(seed))
    popular = [f"popular-{index}" for index in range(room_for)]
    asked: dict[str, tuple[float, str]] = {}
    for turn in range(300):
        for digest in popular:
            while sum(row.adapter is not None and row.adapter.digest == digest for row in machine.queue) < greed and (
                len(machine.room._entered) < 5 * greed
            ):
                machine.enter(digest)
        if turn == 15:
            for index in range(others):
                row = machine.enter(f"rare-{index}")
                asked[row.id] = (machine.now, f"rare-{index}")
        machine.tick()
        if turn > 15 and all(key in machine.began for key in asked):
            break
    loads = others + len(popular)
    for key, (at, _) in asked.items():
        assert machine.began[key] - at <= longest_wait_s(loads, answer / 10, 0.1) + answer / 10 + 0.5


def test_a_load_called_off_begins_again_for_rows_that_came_since(room: Room) -> None:
    first = room.enter("a")
    room.room.admit()
    room.room.leave(first)
    assert room.loader.cancelled == ["a"]
    second = room.enter("a")
    room.room.admit()
    room.room.called_off("a")  # for the row that left, not for this one
    assert room.loaded("a") == [second]


def test_a_load_that_was_not_theirs_and_is_called_off_begins_again_for_its_rows(room: Room) -> None:
    """Somebody called for the version and left; a row came to his load as it gave up."""
    row = room.enter("a")
    room.room.admit()
    room.room.called_off("a")
    assert room.loader.started == ["a", "a"] and room.loaded("a") == [row]
    room.room.called_off("a")
    assert room.loader.started == ["a", "a"], "nobody waits"


@pytest.mark.parametrize("digest", [None, "a", "b"])
def test_a_row_that_leaves_before_it_was_looked_at_is_gone(room: Room, digest: str | None) -> None:
    room.cache.pins["b"] = 0
    row = room.enter(digest)
    room.room.leave(row)
    assert room.room.admit() == [] and room.loader.started == [] and room.cache.pins == {"b": 0}

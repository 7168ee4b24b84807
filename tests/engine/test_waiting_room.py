"""WaitingRoom: who gets a pin when, without starving anybody; with a cache and a loader that only take notes."""

from __future__ import annotations

from typing import Any, cast

import pytest

from graftwork.engine.request import AdapterHandle
from graftwork.engine.sampling_params import SamplingParams
from graftwork.engine.sequence import Sequence
from graftwork.engine.waiting_room import BARRIER_AGE_S, WaitingRoom


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


def test_a_load_called_off_begins_again_for_rows_that_came_since(room: Room) -> None:
    first = room.enter("a")
    room.room.admit()
    room.room.leave(first)
    assert room.loader.cancelled == ["a"]
    second = room.enter("a")
    room.room.admit()
    assert room.room.failed("a") == [], "the load gave up for the row that left, not for this one"
    assert room.loaded("a") == [second]


@pytest.mark.parametrize("digest", [None, "a", "b"])
def test_a_row_that_leaves_before_it_was_looked_at_is_gone(room: Room, digest: str | None) -> None:
    room.cache.pins["b"] = 0
    row = room.enter(digest)
    room.room.leave(row)
    assert room.room.admit() == [] and room.loader.started == [] and room.cache.pins == {"b": 0}

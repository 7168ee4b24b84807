"""RangePool: no byte is in two ranges or lost, free bytes can always be had, memory stays in its budget."""

from __future__ import annotations

import mmap
import random
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from graftwork.engine import range_pool
from graftwork.engine.range_pool import Range, RangePool
from support.scale import times

PAGE = mmap.PAGESIZE


def taken(pool: RangePool, size: int) -> Range | None:
    """A range, with what is beyond the budget or in the way given back to the system, as its one user does."""
    found = pool.allocate(size)
    aside = pool.set_aside(all_of_it=found is None and pool.in_pieces)
    pool.check()
    pool.cool(aside)
    pool.cooled(aside)
    return found or (pool.allocate(size) if aside else None)


def test_ranges_are_contiguous_apart_and_keep_what_is_written() -> None:
    pool = RangePool(64 * PAGE)
    held = [pool.allocate(size) for size in (1, PAGE, PAGE + 1, 10 * PAGE)]
    for number, one in enumerate(held):
        assert one is not None
        pool.buffer[one.start : one.stop] = number + 1
    assert [len(one) // PAGE for one in held if one] == [1, 1, 2, 10]
    assert all((pool.buffer[one.start : one.stop] == n + 1).all() for n, one in enumerate(held) if one)
    pool.check()


def test_more_than_the_budget_is_none_and_changes_nothing() -> None:
    pool = RangePool(3 * PAGE)
    assert pool.allocate(2 * PAGE) is not None
    assert pool.allocate(2 * PAGE) is None
    assert pool.used == 2 * PAGE and pool.allocate(PAGE) is not None


def test_a_range_is_freed_once() -> None:
    pool = RangePool(3 * PAGE)
    one = pool.allocate(PAGE)
    assert one is not None
    pool.free(one)
    with pytest.raises(AssertionError, match="twice"):
        pool.free(one)


def test_holes_that_no_adapter_fits_cost_addresses_not_bytes() -> None:
    pool = RangePool(64 * PAGE)
    small = [pool.allocate(PAGE) for _ in range(64)]
    for one in small[::2]:
        assert one is not None
        pool.free(one)
    assert taken(pool, 32 * PAGE) is not None  # no two free pages touch
    pool.check()


def test_churn_of_mixed_sizes_always_finds_the_free_bytes() -> None:
    dice, pool = random.Random(4), RangePool(1000 * PAGE)
    held: list[Range] = []
    for _ in range(times(2000, 50_000)):
        size = dice.choice([1, 1, 2, 5, 56, 120, 300]) * PAGE
        while pool.capacity - pool.used < size:
            pool.free(held.pop(dice.randrange(len(held))))
        found = taken(pool, size)
        assert found is not None
        held.append(found)
    pool.check()


def resident_bytes() -> int:
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Rss:")) * 1024


def test_freed_memory_goes_back_before_the_budget_is_exceeded() -> None:
    pool, before = RangePool(1 << 25), resident_bytes()
    for size in (1 << 20, 3 << 20, 1 << 20, 5 << 20, 32 << 20, 7 << 20, 31 << 20) * 2:
        one = taken(pool, size)
        assert one is not None
        pool.buffer[one.start : one.stop] = 1
        pool.free(one)
        pool.check()
        assert resident_bytes() - before < (1 << 25) + (8 << 20)


@pytest.mark.parametrize("by_the_c_library", [True, False])
def test_what_is_cooled_reads_as_zeros(monkeypatch: pytest.MonkeyPatch, by_the_c_library: bool) -> None:
    if not by_the_c_library:
        monkeypatch.setattr(range_pool, "_madvise", lambda: None)
    pool = RangePool(4 * PAGE)
    one = pool.allocate(4 * PAGE)
    assert one is not None
    pool.buffer[one.start : one.stop] = 1
    pool.free(one)
    aside = pool.set_aside(all_of_it=True)
    pool.cool(aside)
    pool.cooled(aside)
    assert not pool.buffer[one.start : one.stop].any()
    pool.check()


def test_few_addresses_are_enough_to_begin_with(monkeypatch: pytest.MonkeyPatch) -> None:
    real, asked = mmap.mmap, []

    def scarce(number: int, size: int, **options: int) -> mmap.mmap:
        asked.append(size)
        if size > 8 * PAGE:
            raise OSError(12, "Cannot allocate memory")
        return real(number, size, **options)

    monkeypatch.setattr(mmap, "mmap", scarce)
    pool = RangePool(8 * PAGE)
    assert asked == [128 * PAGE, 32 * PAGE, 8 * PAGE] and pool.allocate(8 * PAGE) == Range(0, 8 * PAGE)
    monkeypatch.setattr(range_pool, "_SPREAD", ())
    with pytest.raises(MemoryError, match=str(8 * PAGE)):
        RangePool(8 * PAGE)


class PoolMachine(RuleBasedStateMachine):
    """A list of ranges beside it; free bytes must always be had."""

    @initialize(pages=st.integers(1, 40))
    def begin(self, pages: int) -> None:
        self.pool = RangePool(pages * PAGE)
        self.held: list[Range] = []

    @rule(size=st.integers(0, 20 * PAGE))
    def allocate(self, size: int) -> None:
        free = self.pool.capacity - self.pool.used
        found = taken(self.pool, size)
        assert (found is not None) == (self.pool.rounded(size) <= free)
        if found is not None:
            assert len(found) == self.pool.rounded(size)
            self.held.append(found)

    @rule(number=st.integers(0, 1000))
    def free(self, number: int) -> None:
        if self.held:
            self.pool.free(self.held.pop(number % len(self.held)))

    @invariant()
    def is_whole(self) -> None:
        if hasattr(self, "pool"):
            self.pool.check()
            assert self.pool.used == sum(map(len, self.held))


TestRangePool = PoolMachine.TestCase
TestRangePool.settings = settings(max_examples=times(50, 1000), stateful_step_count=40, deadline=None)

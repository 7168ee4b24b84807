"""PagePool: every page is free or held by one, whatever the order of calls."""

from __future__ import annotations

import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from graftwork.engine.page_pool import PagePool
from support.scale import times

PAGES = 7


class PoolMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.pool = PagePool(PAGES, 4, torch.float32)
        self.held: list[list[int]] = []

    @rule(count=st.integers(0, PAGES + 1))
    def allocate(self, count: int) -> None:
        free = self.pool.num_free
        pages = self.pool.allocate(count)
        assert (pages is None) == (count > free)
        if pages is not None:
            assert len(pages) == count
            self.held.append(pages)
        else:
            assert self.pool.num_free == free

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def free(self, data: st.DataObject) -> None:
        self.pool.free(self.held.pop(data.draw(st.integers(0, len(self.held) - 1))))

    @invariant()
    def each_page_is_in_one_place(self) -> None:
        self.pool.check()
        pages = [page for pages in self.held for page in pages]
        assert len(set(pages)) == len(pages) == self.pool.num_used
        assert all(0 <= page < PAGES for page in pages)


TestPagePool = PoolMachine.TestCase
TestPagePool.settings = settings(max_examples=times(50, 2000), deadline=None)


def test_freeing_a_page_twice_is_caught() -> None:
    pool = PagePool(2, 4, torch.float32)
    pages = pool.allocate(1)
    assert pages is not None
    pool.free(pages)
    with pytest.raises(AssertionError, match="twice"):
        pool.free(pages)

"""PagePool: every page is free or held, by as many as the pool counts, whatever the order of calls."""

from __future__ import annotations

from collections import Counter

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

    @precondition(lambda self: any(self.held))
    @rule(data=st.data())
    def share(self, data: st.DataObject) -> None:
        pages = data.draw(st.sampled_from([pages for pages in self.held if pages]))
        for page in pages:
            self.pool.share(page)
        self.held.append(list(pages))

    @invariant()
    def each_page_is_in_one_place(self) -> None:
        self.pool.check()
        held = Counter(page for pages in self.held for page in pages)
        assert len(held) == self.pool.num_used
        assert [self.pool.holders(page) for page in range(PAGES)] == [held[page] for page in range(PAGES)]


TestPagePool = PoolMachine.TestCase
TestPagePool.settings = settings(max_examples=times(50, 2000), deadline=None)


def test_freeing_a_page_twice_is_caught() -> None:
    pool = PagePool(2, 4, torch.float32)
    pages = pool.allocate(1)
    assert pages is not None
    pool.free(pages)
    with pytest.raises(AssertionError, match="twice"):
        pool.free(pages)
    with pytest.raises(AssertionError, match="cannot be shared"):
        pool.share(pages[0])

"""PagePool: fixed-size pages of one flat buffer, handed out by number and held by one or several."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch

_LINE = 64  # bytes of a cache line


class PagePool:
    """Owns the buffer, the list of free pages, and how many hold each other page; who they are is their business.

    Memory is committed by the system as pages are first written, so an empty pool costs nearly nothing.
    """

    def __init__(self, num_pages: int, page_elements: int, dtype: torch.dtype) -> None:
        self.num_pages = num_pages
        nbytes = num_pages * page_elements * dtype.itemsize
        # numpy asks the system for zeroed memory and does not touch it; torch.zeros would write all of it now.
        memory = torch.from_numpy(np.zeros(nbytes + _LINE, np.uint8))
        first = -memory.data_ptr() % _LINE  # no vector that is read lies in two cache lines
        self.buffer = memory[first : first + nbytes].view(dtype)
        self._free = list(range(num_pages - 1, -1, -1))  # a stack: the page freed last is the warmest
        self._holders = [0] * num_pages

    @property
    def num_free(self) -> int:
        return len(self._free)

    @property
    def num_used(self) -> int:
        return self.num_pages - len(self._free)

    def holders(self, page: int) -> int:
        """How many hold a page; 0: it is free."""
        return self._holders[page]

    def allocate(self, count: int) -> list[int] | None:
        """`count` pages with one holder each, or None and no change when fewer are free."""
        if count > len(self._free):
            return None
        pages = [self._free.pop() for _ in range(count)]
        for page in pages:
            self._holders[page] = 1
        return pages

    def share(self, page: int) -> None:
        """One more holder of a page, from now on read-only for all of them."""
        assert self._holders[page], f"page {page} is free and cannot be shared"
        self._holders[page] += 1

    def free(self, pages: Iterable[int]) -> None:
        """One holder less of each page; what nobody holds is free, and its content undefined."""
        for page in pages:
            assert self._holders[page], f"page {page} is freed twice"
            self._holders[page] -= 1
            if not self._holders[page]:
                self._free.append(page)

    def check(self) -> None:
        """Every page is either free, once, or held."""
        assert len(set(self._free)) == len(self._free), "a page is free twice"
        assert not any(self._holders[page] for page in self._free), "a free page is held"
        assert self._holders.count(0) == len(self._free), "a page that nobody holds is not on the list"

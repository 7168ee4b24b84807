"""PagePool: fixed-size pages of one flat buffer, handed out by number."""

from __future__ import annotations

import numpy as np
import torch


class PagePool:
    """Owns the buffer and the list of free pages; who holds a page is its holder's business.

    Memory is committed by the system as pages are first written, so an empty pool costs nearly nothing.
    """

    def __init__(self, num_pages: int, page_elements: int, dtype: torch.dtype) -> None:
        self.num_pages = num_pages
        # numpy asks the system for zeroed memory and does not touch it; torch.zeros would write all of it now.
        self.buffer = torch.from_numpy(np.zeros(num_pages * page_elements * dtype.itemsize, np.uint8)).view(dtype)
        self._free = list(range(num_pages - 1, -1, -1))  # a stack: the page freed last is the warmest
        self._is_free = bytearray(b"\1" * num_pages)

    @property
    def num_free(self) -> int:
        return len(self._free)

    @property
    def num_used(self) -> int:
        return self.num_pages - len(self._free)

    def allocate(self, count: int) -> list[int] | None:
        """`count` pages, or None and no change when fewer are free."""
        if count > len(self._free):
            return None
        pages = [self._free.pop() for _ in range(count)]
        for page in pages:
            self._is_free[page] = 0
        return pages

    def free(self, pages: list[int]) -> None:
        """Give pages back; their content is undefined afterwards."""
        for page in pages:
            assert not self._is_free[page], f"page {page} is freed twice"
            self._is_free[page] = 1
            self._free.append(page)

    def check(self) -> None:
        """Every page is either free, once, or held."""
        assert len(set(self._free)) == len(self._free), "a page is free twice"
        assert all(self._is_free[page] for page in self._free), "a free page is marked as held"
        assert sum(self._is_free) == len(self._free), "a page marked as free is not on the list"

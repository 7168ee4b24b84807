"""KvCache: keys and values of all layers in pages of 64 tokens, of running rows and what is left of earlier ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import torch
from torch import Tensor

from graftwork.adapters.outline import Outline
from graftwork.engine.page_pool import PagePool
from graftwork.engine.prefix_cache import PrefixCache
from graftwork.kernels.attention import PAGE_TOKENS, page_shapes


def kv_page_elements(outline: Outline) -> int:
    """Numbers in one page: 64 tokens of keys and values for all layers."""
    return outline.num_layers * 2 * outline.num_kv_heads * outline.head_dim * PAGE_TOKENS


class KvCache:
    """Owns the pool and its prefix cache; a row holds its page numbers and grows them here, before it is computed."""

    def __init__(self, outline: Outline, dtype: torch.dtype, cache_bytes: int) -> None:
        heads, dim = outline.num_kv_heads, outline.head_dim
        page_elements = kv_page_elements(outline)
        self.pool = PagePool(max(1, cache_bytes // (page_elements * dtype.itemsize)), page_elements, dtype)
        self.prefixes = PrefixCache(self.pool)
        halves = self.pool.buffer.view(-1, outline.num_layers, 2, heads * dim * PAGE_TOKENS)
        keys, values = page_shapes(dim)
        self.keys: Tensor = halves[:, :, 0].view(*halves.shape[:2], heads, *keys)
        self.values: Tensor = halves[:, :, 1].view(*halves.shape[:2], heads, *values)

    @property
    def max_tokens(self) -> int:
        """The longest single row that fits."""
        return self.pool.num_pages * PAGE_TOKENS

    @property
    def num_free(self) -> int:
        """Pages that a row can have: free ones, and cached ones that no row holds."""
        return self.pool.num_free + self.prefixes.num_idle

    @property
    def num_used(self) -> int:
        """Pages that rows hold."""
        return self.pool.num_used - self.prefixes.num_idle

    def missing(self, pages: list[int], tokens: int) -> int:
        """How many more pages a row needs to hold `tokens` tokens."""
        return max(0, -(-tokens // PAGE_TOKENS) - len(pages))

    def grow(self, pages: list[int], tokens: int) -> bool:
        """Extend a row's pages to hold `tokens` tokens; False and no change when too few can be had."""
        count = self.missing(pages, tokens)
        if count > self.num_free:
            return False
        self.prefixes.evict(max(0, count - self.pool.num_free))
        more = self.pool.allocate(count)
        assert more is not None, "free pages were counted before"
        pages += more
        return True

    def release(self, pages: list[int]) -> None:
        """Let go of all pages of a row and empty its list."""
        self.prefixes.release(pages)
        pages.clear()

    def check(self, rows: Sequence[list[int]]) -> None:
        """Pages are held by these rows' lists and by the prefix cache, as often as the pool says."""
        self.pool.check()
        self.prefixes.check()
        held = Counter(page for pages in rows for page in pages)
        assert all(len(set(pages)) == len(pages) for pages in rows), "a row holds a page twice"
        for page in range(self.pool.num_pages):
            holders = held[page] + self.prefixes.named(page)
            assert holders == self.pool.holders(page), f"page {page} is lost, or has a holder that is not known"

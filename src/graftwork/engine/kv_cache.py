"""KvCache: keys and values of running rows, in pages of 64 tokens for all layers at once."""

from __future__ import annotations

import torch
from torch import Tensor

from graftwork.adapters.outline import Outline
from graftwork.engine.page_pool import PagePool
from graftwork.kernels.attention import PAGE_TOKENS


def kv_page_elements(outline: Outline) -> int:
    """Numbers in one page: 64 tokens of keys and values for all layers."""
    return outline.num_layers * 2 * outline.num_kv_heads * outline.head_dim * PAGE_TOKENS


class KvCache:
    """Owns the pool; a row holds its page numbers and grows them here, before its tokens are computed."""

    def __init__(self, outline: Outline, dtype: torch.dtype, cache_bytes: int) -> None:
        heads, dim = outline.num_kv_heads, outline.head_dim
        page_elements = kv_page_elements(outline)
        self.pool = PagePool(max(1, cache_bytes // (page_elements * dtype.itemsize)), page_elements, dtype)
        halves = self.pool.buffer.view(-1, outline.num_layers, 2, heads * dim * PAGE_TOKENS)
        self.keys: Tensor = halves[:, :, 0].view(*halves.shape[:2], heads, dim, PAGE_TOKENS)
        self.values: Tensor = halves[:, :, 1].view(*halves.shape[:2], heads, PAGE_TOKENS, dim)

    @property
    def max_tokens(self) -> int:
        """The longest single row that fits."""
        return self.pool.num_pages * PAGE_TOKENS

    def missing(self, pages: list[int], tokens: int) -> int:
        """How many more pages a row needs to hold `tokens` tokens."""
        return max(0, -(-tokens // PAGE_TOKENS) - len(pages))

    def grow(self, pages: list[int], tokens: int) -> bool:
        """Extend a row's pages to hold `tokens` tokens; False and no change when too few are free."""
        more = self.pool.allocate(self.missing(pages, tokens))
        if more is None:
            return False
        pages += more
        return True

    def release(self, pages: list[int]) -> None:
        """Free all pages of a row and empty its list."""
        self.pool.free(pages)
        pages.clear()

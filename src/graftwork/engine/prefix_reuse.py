"""PrefixReuse: what a row takes from the prefix cache before it begins, and what it leaves there for others."""

from __future__ import annotations

from graftwork.engine.kv_cache import KvCache
from graftwork.engine.sequence import Sequence
from graftwork.kernels.attention import PAGE_TOKENS


class PrefixReuse:
    """Keeps each row's pages, shared and computed tokens in step; owns the counts of what was found."""

    def __init__(self, kv: KvCache) -> None:
        self._kv = kv
        #: Prompt tokens of rows that ran and may begin with cached ones, and how many of them did.
        self.num_queried = self.num_hit = 0

    def take(self, row: Sequence) -> None:
        """Let a row that waits hold what the cache has of its beginning."""
        row.pages += self._kv.prefixes.take(row.block_keys(row.num_reusable // PAGE_TOKENS))
        row.num_shared = len(row.pages)
        row.num_computed = row.num_shared * PAGE_TOKENS

    def give_back(self, row: Sequence) -> None:
        """Let a row hold nothing, and begin anew when it runs."""
        self._kv.release(row.pages)
        row.num_computed = row.num_shared = 0

    def count(self, row: Sequence) -> None:
        """A row runs: what it took counts where it does so for the first time."""
        if row.num_cached is None:
            row.num_cached = row.num_shared * PAGE_TOKENS
            if row.keys is not None and row.num_reusable > row.num_virtual:
                self.num_queried += row.num_prompt - row.num_virtual
                self.num_hit += row.cached_prompt

    def vouch(self, row: Sequence) -> None:
        """What came out of a row is finite: others may begin with the blocks that it has filled."""
        full = row.num_computed // PAGE_TOKENS
        if row.keys is not None and full > row.num_shared:
            new = slice(row.num_shared, full)
            self._kv.prefixes.put(row.block_keys(full)[new], row.pages[new])
            row.num_shared = full

    def forget(self, row: Sequence) -> None:
        """A row failed: nobody begins with what it holds any more."""
        self._kv.prefixes.forget(row.pages)

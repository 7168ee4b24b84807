"""PrefixCache: which pages hold which blocks, so that a row can begin with what earlier rows have computed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from graftwork.engine.page_pool import PagePool


class PrefixCache:
    """Names pages by their block's key (`block_keys.py`), holds each of them once, and lets go of the oldest.

    A named page is full and is never written again, so that any number of rows may read it. One that no row holds is
    idle: it keeps its content until pages are needed, and the least recently used goes first.
    """

    def __init__(self, pool: PagePool) -> None:
        self._pool = pool
        self._pages: dict[bytes, int] = {}
        self._keys: dict[int, bytes] = {}
        self._idle: dict[int, None] = {}  # least recently used first

    @property
    def num_idle(self) -> int:
        """Pages that could be evicted at once."""
        return len(self._idle)

    def named(self, page: int) -> bool:
        return page in self._keys

    def take(self, keys: Iterable[bytes]) -> list[int]:
        """The pages of the first of `keys`, up to the first that is not here, with one more holder each."""
        pages = []
        for key in keys:
            if (page := self._pages.get(key)) is None:
                break
            self._pool.share(page)
            self._idle.pop(page, None)
            pages.append(page)
        return pages

    def put(self, keys: Iterable[bytes], pages: Iterable[int]) -> None:
        """Name pages that a row has filled and still holds; where a block has a page already, that one stays."""
        for key, page in zip(keys, pages, strict=True):
            if key not in self._pages and page not in self._keys:
                self._pool.share(page)
                self._pages[key], self._keys[page] = page, key

    def release(self, pages: Sequence[int]) -> None:
        """One holder less of a row's pages; the last is evicted before the first, without which it is of no use."""
        for page in reversed(pages):
            self._pool.free((page,))
            if page in self._keys and self._pool.holders(page) == 1:
                self._idle[page] = None

    def forget(self, pages: Iterable[int]) -> None:
        """Nobody takes these pages any more; those who hold them may go on."""
        for page in pages:
            if (key := self._keys.pop(page, None)) is not None:
                del self._pages[key]
                self._idle.pop(page, None)
                self._pool.free((page,))

    def evict(self, count: int) -> None:
        """Free `count` idle pages."""
        for _ in range(count):
            self.forget((next(iter(self._idle)),))

    def check(self) -> None:
        """Every name has its page, which is held; idle are those that nobody else holds."""
        assert {key: page for page, key in self._keys.items()} == self._pages, "a name and its page do not agree"
        assert all(self._pool.holders(page) for page in self._keys), "a named page is free"
        alone = {page for page in self._keys if self._pool.holders(page) == 1}
        assert alone == set(self._idle), "an idle page is held, or a page that nobody holds is not idle"

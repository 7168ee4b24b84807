"""PrefixCache on the page pool: whatever is read is what was asked for, nothing shared is written, nothing is lost."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from graftwork.engine.block_keys import BlockKeys
from graftwork.engine.kv_cache import KvCache
from graftwork.engine.request import Caller
from graftwork.kernels.attention import PAGE_TOKENS
from support.pages import kv_cache
from support.scale import times

PAGES = 9


@dataclass(eq=False)
class Row:
    """One row: whose it is, its tokens, and what of them it has computed and vouched for."""

    whose: str
    tokens: list[int]
    keys: BlockKeys
    pages: list[int] = field(default_factory=list)
    computed: int = 0
    shared: int = 0

    def content(self, block: int) -> tuple[str, tuple[int, ...]]:
        """What a page of this block must hold: keys and values depend on all tokens so far."""
        return self.whose, tuple(self.tokens[: (block + 1) * PAGE_TOKENS])


class CacheMachine(RuleBasedStateMachine):
    """Rows of two tenants over few texts, so that they meet; `written` is what each page really holds."""

    def __init__(self) -> None:
        super().__init__()
        self.kv = kv_cache(PAGES)
        self.rows: list[Row] = []
        self.written: dict[int, tuple[str, tuple[int, ...]]] = {}
        self.idle: list[int] = []  # as it should be: least recently used first

    @precondition(lambda self: len(self.rows) < 4)
    @rule(whose=st.sampled_from("ab"), text=st.lists(st.integers(1, 2), min_size=1, max_size=5))
    def begin(self, whose: str, text: list[int]) -> None:
        tokens = [letter for letter in text for _ in range(PAGE_TOKENS)]
        row = Row(whose, tokens, BlockKeys("base", None, Caller(whose)))
        row.pages = self.kv.prefixes.take(row.keys.of(tokens, len(text), 0))
        row.shared = len(row.pages)
        row.computed = row.shared * PAGE_TOKENS
        for block, page in enumerate(row.pages):
            assert self.written[page] == row.content(block), "a page holds what its key says"
        self.idle = [page for page in self.idle if page not in row.pages]
        self.rows.append(row)

    @precondition(lambda self: self.rows)
    @rule(data=st.data())
    def compute(self, data: st.DataObject) -> None:
        row = self._one(data)
        count = data.draw(st.integers(0, len(row.tokens) - row.computed))
        missing, free = self.kv.missing(row.pages, row.computed + count), self.kv.num_free
        evicted = max(0, missing - self.kv.pool.num_free)
        assert self.kv.grow(row.pages, row.computed + count) == (missing <= free)
        if missing > free:
            assert self.kv.num_free == free
            return
        self.idle = self.idle[evicted:]
        for place in range(row.computed, row.computed + count):
            page = row.pages[place // PAGE_TOKENS]
            assert self.kv.pool.holders(page) == 1 and not self.kv.prefixes.named(page), "a shared page is written"
            self.written[page] = row.whose, tuple(row.tokens[: place + 1])
        row.computed += count

    @precondition(lambda self: self.rows)
    @rule(data=st.data())
    def vouch(self, data: st.DataObject) -> None:
        row = self._one(data)
        full = row.computed // PAGE_TOKENS
        self.kv.prefixes.put(row.keys.of(row.tokens, full, 0)[row.shared :], row.pages[row.shared : full])
        row.shared = full

    @precondition(lambda self: self.rows)
    @rule(data=st.data(), failed=st.booleans())
    def end(self, data: st.DataObject, failed: bool) -> None:
        row = self._one(data)
        self.rows.remove(row)
        if failed:
            self.kv.prefixes.forget(row.pages)
            assert not any(map(self.kv.prefixes.named, row.pages))
        held = {page for other in self.rows for page in other.pages}
        self.idle += [page for page in reversed(row.pages) if self.kv.prefixes.named(page) and page not in held]
        self.kv.release(row.pages)

    def _one(self, data: st.DataObject) -> Row:
        return self.rows[data.draw(st.integers(0, len(self.rows) - 1))]

    @invariant()
    def every_page_is_accounted_for(self) -> None:
        self.kv.check([row.pages for row in self.rows])
        assert self.kv.num_used == len({page for row in self.rows for page in row.pages})
        assert self.kv.num_used + self.kv.num_free == PAGES

    @invariant()
    def the_least_recently_used_goes_first(self) -> None:
        assert list(self.kv.prefixes._idle) == self.idle

    @invariant()
    def rows_hold_what_they_have_computed(self) -> None:
        for row in self.rows:
            for block, page in enumerate(row.pages[: row.computed // PAGE_TOKENS]):
                assert self.written[page] == row.content(block)


TestPrefixCache = CacheMachine.TestCase
TestPrefixCache.settings = settings(max_examples=times(50, 2000), stateful_step_count=40, deadline=None)


def filled(kv: KvCache, text: list[int], whose: str = "a") -> tuple[list[bytes], list[int]]:
    """A row that was computed, vouched for and has ended; its keys and where they were."""
    tokens = [letter for letter in text for _ in range(PAGE_TOKENS)]
    keys, pages = BlockKeys("base", None, Caller(whose)).of(tokens, len(text), 0), list[int]()
    assert kv.grow(pages, len(tokens))
    kv.prefixes.put(keys, pages)
    held = list(pages)
    kv.release(pages)
    return keys, held


def test_the_end_of_a_text_is_evicted_before_its_beginning_and_the_oldest_text_first() -> None:
    kv = kv_cache(4)
    old, _ = filled(kv, [1, 1])
    new, _ = filled(kv, [2, 2])
    assert (kv.num_used, kv.num_free, kv.pool.num_free) == (0, 4, 0), "cached pages count as free"
    pages: list[int] = []
    left = [*new, *old]
    while left:
        assert kv.grow(pages, (len(pages) + 1) * PAGE_TOKENS)
        left.pop()
        assert list(kv.prefixes._pages) == sorted(left, key=[*old, *new].index)
    assert not kv.grow(pages, 5 * PAGE_TOKENS)


def test_two_rows_of_one_text_leave_one_copy() -> None:
    kv = kv_cache(4)
    keys = BlockKeys("base", None, Caller()).of([1] * 64, 1, 0)
    one, two = list[int](), list[int]()
    assert kv.grow(one, 64) and kv.grow(two, 64)
    kv.prefixes.put(keys, one)
    kv.prefixes.put(keys, two)
    kept = one[0]
    kv.release(one)
    kv.release(two)
    assert kv.prefixes.take(keys) == [kept] and kv.prefixes.num_idle == 0 and kv.pool.num_free == 3


def test_a_forgotten_page_stays_with_those_who_hold_it() -> None:
    kv = kv_cache(2)
    keys, [page] = filled(kv, [1])
    reader = kv.prefixes.take(keys)
    kv.prefixes.forget(reader)
    assert kv.prefixes.take(keys) == [] and kv.pool.holders(page) == 1
    kv.release(reader)
    assert kv.pool.num_free == 2
    kv.check([])


@pytest.mark.parametrize("break_it", ["free", "share", "idle"])
def test_check_finds_what_does_not_add_up(break_it: str) -> None:
    kv = kv_cache(4)
    _, [page, _] = filled(kv, [1, 2])
    if break_it == "free":
        kv.pool.free([page])
    elif break_it == "share":
        kv.pool.share(page)
    else:
        kv.prefixes._idle.pop(page)
    with pytest.raises(AssertionError):
        kv.check([])

"""AdapterCache: what is pinned stays, the least recently used goes first, and errors leave the books as they were."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from graftwork.adapters.deltas import LowRankPart
from graftwork.adapters.outline import LinearSite, Outline
from graftwork.adapters.serving_form import LowRankSlice, ServingForm, Site, Weights
from graftwork.engine.adapter_cache import AdapterCache, CalledOff, NoRoom
from graftwork.engine.form_image import image_of
from graftwork.engine.range_pool import Range, RangePool
from graftwork.engine.slot_tables import fill_slot
from graftwork.errors import Conflict, Refused, Unavailable
from support.scale import times

WIDE = Outline("b", "X", "sha256:0", "bfloat16", 8, 4, 1, 1, 1, 2, 512, tuple(
    LinearSite(f"{layer}.{name}", width_in, width_out, False)
    for layer in range(30)
    for name, width_in, width_out in (("q", 576, 576), ("k", 576, 192), ("v", 576, 192), ("o", 576, 576))
), (), (), "b")  # fmt: skip
SITES = (LinearSite("x", 48, 32, False), LinearSite("y", 32, 64, False))
OUTLINE = Outline("b", "X", "sha256:0", "float32", 8, 4, 1, 1, 1, 2, 512, SITES, (), (), "b")
#: So many bytes of memory for each of the small forms below.
ROOM = 4096


def form(rank: int, fill: float = 1.0) -> ServingForm:
    return ServingForm(
        tuple(
            LowRankSlice(i, torch.full((rank, site.in_features), fill), torch.full((rank, site.out_features), -fill))
            for i, site in enumerate(SITES)
        )
    )


def cache_of(small: int) -> AdapterCache:
    return AdapterCache(OUTLINE, torch.float32, small * ROOM)


def insert(cache: AdapterCache, digest: str, made: ServingForm, wait_s: float = 0.0) -> None:
    cache.insert(digest, image_of(made, torch.float32), time.monotonic() + wait_s, lambda: True)


def test_tables_point_at_the_weights_of_the_version() -> None:
    cache = cache_of(4)
    insert(cache, "a", form(3, 1.0))
    insert(cache, "b", form(5, 2.0))
    for digest, rank, fill in (("a", 3, 1.0), ("b", 5, 2.0)):
        slot = cache.pin(digest)
        assert slot is not None
        for index, site in enumerate(SITES):
            assert cache.slots.lowrank.rank[slot, index] == rank
            for table, width, sign in (
                (cache.slots.lowrank.a_offset, site.in_features, 1),
                (cache.slots.lowrank.b_offset, site.out_features, -1),
            ):
                start = int(table[slot, index])
                assert (cache.slots.lowrank.pool[start : start + rank * width] == sign * fill).all()


@pytest.mark.parametrize("rank", [1, 4, 8, 64])
def test_what_versions_hold_is_what_their_tensors_weigh(rank: int) -> None:
    cache, wide = AdapterCache(WIDE, torch.bfloat16, 1 << 28), WIDE.linears
    halves = [(torch.ones(rank, one.in_features), torch.ones(rank, one.out_features)) for one in wide]
    made = ServingForm(tuple(LowRankSlice(i, a.bfloat16(), b.bfloat16()) for i, (a, b) in enumerate(halves)))
    own = sum(tensor.nbytes for _, tensor in made.tensors())
    for number in range(10):
        cache.insert(str(number), image_of(made, torch.bfloat16), time.monotonic(), lambda: True)
    assert 10 * own <= cache.used_bytes <= 10 * own * 1.05
    cache.check()


def test_weights_that_parts_share_are_kept_once() -> None:
    cache, shared = cache_of(64), Weights.of(torch.arange(40_000.0).view(200, 200))
    own = [Weights.of(torch.full((100,), float(number))) for number in range(8)]
    parts = tuple(LowRankPart(Site("linear", number), shared, one) for number, one in enumerate(own))
    insert(cache, "a", ServingForm(parts=parts))
    assert 160_000 + 8 * 400 <= cache.used_bytes <= 160_000 + 8 * 448 + 4096
    slot = cache.pin("a")
    assert slot is not None
    for number, one in enumerate(own):
        (placed,) = cache.slots.parts[slot][Site("linear", number)]
        assert isinstance(placed, LowRankPart)
        assert torch.equal(placed.a.matrix, shared.matrix) and torch.equal(placed.b.matrix, one.matrix)
        assert placed.a.matrix.data_ptr() != shared.matrix.data_ptr()


def test_evicts_only_unpinned_and_the_least_recently_used_first() -> None:
    cache = cache_of(3)
    for digest in "abc":
        insert(cache, digest, form(4))
    cache.unpin("b")
    cache.unpin("c")
    assert cache.pin("b") is not None
    cache.unpin("b")  # b is now the more recent of the two
    insert(cache, "d", form(4))
    assert set(cache.resident) == {"a", "b", "d"}
    insert(cache, "e", form(4))
    assert set(cache.resident) == {"a", "d", "e"}
    cache.check()


def test_waits_for_room_until_somebody_lets_go() -> None:
    cache = cache_of(1)
    insert(cache, "a", form(4))
    waiting = threading.Thread(target=insert, args=(cache, "b", form(4), 10.0))
    waiting.start()
    cache.unpin("a")
    waiting.join(5)
    assert cache.resident == {"b": 1}


def test_no_room_until_the_deadline_is_unavailable_and_changes_nothing() -> None:
    cache = cache_of(1)
    insert(cache, "a", form(4))
    with pytest.raises(Unavailable, match="adapter_cache_bytes"):
        insert(cache, "b", form(4))
    with pytest.raises(Unavailable, match="Nobody waits"):
        cache.insert("b", image_of(form(4), torch.float32), time.monotonic() + 10, lambda: False)
    assert cache.resident == {"a": 1}
    cache.check()


def test_larger_than_the_whole_cache_is_refused_with_both_numbers() -> None:
    cache = cache_of(1)
    with pytest.raises(Refused, match=rf"{3 * ROOM}.*{ROOM}"):
        insert(cache, "a", form(12))
    assert cache.used_bytes == 0


def test_a_copy_that_fails_is_rolled_back() -> None:
    cache = cache_of(2)
    bad = ServingForm((*form(4).slices, LowRankSlice(9, torch.ones(4, 48), torch.ones(4, 32))))
    with pytest.raises(IndexError):
        insert(cache, "a", bad)
    assert cache.resident == {} and cache.used_bytes == 0
    cache.check()
    insert(cache, "a", form(4))


def test_inserting_what_is_resident_only_pins_it() -> None:
    cache = cache_of(2)
    insert(cache, "a", form(4))
    insert(cache, "a", form(4))
    assert cache.resident == {"a": 2}


def test_a_tenant_that_loads_and_loads_pushes_out_its_own() -> None:
    cache = cache_of(4)
    for tenant, digest in [("small", "s1"), ("small", "s2"), *(("large", f"l{n}") for n in range(20))]:
        cache.insert(digest, image_of(form(4), torch.float32), time.monotonic(), lambda: True, tenant=tenant)
        cache.unpin(digest)
        cache.check()
    assert set(cache.resident) == {"s1", "s2", "l18", "l19"}


def test_what_nobody_used_for_an_hour_goes_first_whoevers_it_is() -> None:
    now = [0.0]
    cache = AdapterCache(OUTLINE, torch.float32, 3 * ROOM, lambda: now[0])
    for tenant, digest in (("small", "s"), ("large", "l1"), ("large", "l2"), ("large", "l3")):
        cache.insert(digest, image_of(form(4), torch.float32), time.monotonic(), lambda: True, tenant=tenant)
        cache.unpin(digest)
        now[0] += 3000.0
    assert set(cache.resident) == {"l1", "l2", "l3"}


def test_what_is_kept_stays_and_leaves_no_room_to_wait_for() -> None:
    cache = cache_of(2)
    insert(cache, "a", form(4))
    cache.unpin("a")
    assert cache.keep("a") and not cache.keep("b")
    insert(cache, "b", form(4))
    cache.unpin("b")
    with pytest.raises(NoRoom, match=rf"hold {ROOM} of the {2 * ROOM} bytes .* this one needs {2 * ROOM}"):
        insert(cache, "c", form(8), wait_s=60.0)
    insert(cache, "d", form(4))
    assert set(cache.resident) == {"a", "d"}
    cache.let_go("a")
    cache.unpin("d")
    insert(cache, "c", form(8))
    assert set(cache.resident) == {"c"}
    cache.check()


def test_what_is_to_leave_goes_with_its_last_pin_and_is_served_until_then() -> None:
    cache = cache_of(2)
    insert(cache, "a", form(4))
    assert cache.unload("a") == 1 and cache.unload("nothing") is None
    assert cache.pin("a") is not None, "rows that come are served from it still"
    cache.unpin("a")
    assert cache.leaving("a") == 1 and cache.in_memory()["a"].leaving
    cache.unpin("a")
    assert cache.leaving("a") is None and cache.resident == {} and cache.used_bytes == 0
    insert(cache, "a", form(4))
    cache.unload("a")
    assert cache.stay("a")
    cache.unpin("a")
    assert cache.resident == {"a": 0}, "wanted again"
    cache.keep("a")
    with pytest.raises(Conflict):
        cache.unload("a")
    cache.check()


def test_who_comes_instead_of_others_takes_only_their_room_and_waits_for_nobody() -> None:
    cache = cache_of(3)
    for digest in "abc":
        insert(cache, digest, form(4))
    cache.unpin("a")
    cache.unpin("b")
    for instead_of in ((), ("c",)):
        with pytest.raises(CalledOff, match="nobody else needs"):
            cache.insert(
                "d", image_of(form(4), torch.float32), time.monotonic() + 60, lambda: True, instead_of=instead_of
            )
    cache.insert("d", image_of(form(4), torch.float32), time.monotonic() + 60, lambda: True, instead_of=("c", "b"))
    assert set(cache.resident) == {"a", "c", "d"}


def test_a_pin_does_not_wait_while_memory_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    cache, pinned = cache_of(3), list[int | None]()
    insert(cache, "a", form(4))
    insert(cache, "b", form(4))
    cache.unpin("b")
    cache.unload("b")
    cool = RangePool.cool

    def slow(self: RangePool, aside: Sequence[Range]) -> None:
        if aside:  # what the loop's thread may want meanwhile: it gets it only if the lock is free
            pinning = threading.Thread(target=lambda: pinned.append(cache.pin("a")))
            pinning.start()
            pinning.join(5)
        cool(self, aside)

    monkeypatch.setattr(RangePool, "cool", slow)
    insert(cache, "c", form(8))  # where b was is too small, and more than the budget beside it
    assert len(pinned) == 1 and pinned[0] is not None
    cache.check()


class CacheMachine(RuleBasedStateMachine):
    """Pins are counted by a plain dict beside it."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = cache_of(3)
        self.pins: dict[str, int] = {}

    @rule(digest=st.sampled_from("abcde"), rank=st.sampled_from([1, 4, 8, 12, 16]), tenant=st.sampled_from("xyz"))
    def insert(self, digest: str, rank: int, tenant: str) -> None:
        before = self.cache.resident
        try:
            image = image_of(form(rank), torch.float32)
            self.cache.insert(digest, image, time.monotonic(), lambda: True, tenant=tenant)
        except Unavailable:
            assert self.cache.resident == before
            return
        self.pins[digest] = self.pins.get(digest, 0) + 1

    @rule(digest=st.sampled_from("abcde"))
    def pin(self, digest: str) -> None:
        slot = self.cache.pin(digest)
        assert (slot is not None) == (digest in self.cache.resident)
        if slot is not None:
            self.pins[digest] = self.pins.get(digest, 0) + 1

    @rule(digest=st.sampled_from("abcde"))
    def unpin(self, digest: str) -> None:
        if self.pins.get(digest, 0):
            self.cache.unpin(digest)
            self.pins[digest] -= 1

    @rule(digest=st.sampled_from("abcde"))
    def keep(self, digest: str) -> None:
        assert self.cache.keep(digest) == (digest in self.cache.resident)

    @rule(digest=st.sampled_from("abcde"))
    def let_go(self, digest: str) -> None:
        self.cache.let_go(digest)

    @rule(digest=st.sampled_from("abcde"))
    def unload(self, digest: str) -> None:
        try:
            held = self.cache.unload(digest)
        except Conflict:
            return
        assert held == (self.pins.get(digest, 0) or None)

    @invariant()
    def books_balance(self) -> None:
        self.cache.check()
        resident = self.cache.resident
        memory = self.cache.in_memory()
        assert all(memory[digest].pins == pins for digest, pins in self.pins.items() if pins)
        assert set(resident) == set(memory)


TestAdapterCache = CacheMachine.TestCase
TestAdapterCache.settings = settings(max_examples=times(30, 1000), stateful_step_count=30, deadline=None)


def test_books_balance_while_an_insert_still_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    cache, seen = cache_of(2), []

    def checked(*arguments: Any) -> None:
        cache.check()
        seen.append(cache.resident)
        fill_slot(*arguments)

    monkeypatch.setattr("graftwork.engine.adapter_cache.fill_slot", checked)
    insert(cache, "a", form(4))
    assert seen == [{}] and cache.resident == {"a": 1}
    cache.check()

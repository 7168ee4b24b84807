"""Scheduler: decoding never waits for prompts, every row gets there, and pages are never lost or shared."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graftwork.adapters.outline import Outline
from graftwork.engine.kv_cache import KvCache
from graftwork.engine.pooler import Pooler
from graftwork.engine.sampling_params import SamplingParams
from graftwork.engine.scheduler import MAX_RATED, Scheduler
from graftwork.engine.sequence import Sequence
from support.scale import times

OUTLINE = Outline("b", "X", "sha256:0", "float32", 8, 4, 1, 1, 1, 2, 4096, (), (), (), "b")
PAGE_BYTES = 2 * 1 * 2 * 64 * 4


def kv_cache(pages: int) -> KvCache:
    return KvCache(OUTLINE, torch.float32, pages * PAGE_BYTES)


def row(name: str, prompt: int, answer: int, *, rated: bool = False) -> Sequence:
    unused, params = cast(Any, None), SamplingParams(prompt_logprobs=0 if rated else None)
    return Sequence(name, [1] * prompt, prompt, params, 0, answer, frozenset(), None, unused, unused, unused)


def step(scheduler: Scheduler) -> list[tuple[str, int]]:
    """Run one step as the loop does: compute, sample one token where nothing is pending, drop what is done."""
    chunks = scheduler.schedule()
    assert sum(len(chunk.rates) for chunk in chunks) <= MAX_RATED
    for chunk in chunks:
        completes, samples, sequence, rates = chunk.completes, chunk.samples, chunk.sequence, chunk.rates
        assert len(chunk.logits) == len(rates) + samples
        if rates:
            assert rates == chunk.logits[: len(rates)] and rates.start == len(sequence.rated), "in order, each once"
            sequence.rated += [cast(Any, None)] * len(rates)
        sequence.num_computed += chunk.count
        if completes and not samples:
            scheduler.remove(sequence)
        if samples:
            sequence.tokens.append(2)
            if sequence.num_generated == sequence.max_tokens:
                scheduler.remove(sequence)
    scheduler.check()
    return [(chunk.sequence.id, chunk.count) for chunk in chunks]


def test_a_row_that_generates_nothing_may_fill_every_page() -> None:
    scheduler = Scheduler(kv_cache(2), max_num_seqs=8, max_num_batched_tokens=64)
    reading = row("a", 128, 0)
    reading.pooler = Pooler("last")
    scheduler.add(reading)
    assert step(scheduler) == [("a", 64)]
    [chunk] = scheduler.schedule()
    assert (chunk.count, chunk.samples, chunk.pooled) == (64, False, range(127, 128))


def test_decoding_rows_come_first_and_prompts_share_what_is_left() -> None:
    scheduler = Scheduler(kv_cache(100), max_num_seqs=8, max_num_batched_tokens=64)
    scheduler.add(row("a", 10, 9))
    assert step(scheduler) == [("a", 10)]
    scheduler.add(row("b", 100, 3))
    scheduler.add(row("c", 30, 3))
    assert step(scheduler) == [("a", 1), ("b", 63)]
    assert step(scheduler) == [("a", 1), ("b", 37), ("c", 26)]
    assert step(scheduler) == [("a", 1), ("b", 1), ("c", 4)]


def test_first_come_first_served() -> None:
    scheduler = Scheduler(kv_cache(100), max_num_seqs=2, max_num_batched_tokens=256)
    for name in "abc":
        scheduler.add(row(name, 5, 2))
    assert [name for name, _ in step(scheduler)] == ["a", "b"]
    assert [name for name, _ in step(scheduler)] == ["a", "b"]
    assert [name for name, _ in step(scheduler)] == ["c"]


def test_the_newest_row_gives_way_and_comes_back() -> None:
    scheduler = Scheduler(kv_cache(4), max_num_seqs=4, max_num_batched_tokens=256)
    old, new = row("old", 100, 90), row("new", 60, 20)
    scheduler.add(old)
    scheduler.add(new)
    names = []
    while scheduler.running or scheduler.waiting:
        names.append({name for name, _ in step(scheduler)})
    assert (old.num_generated, new.num_generated) == (90, 20)
    assert names[0] == {"old", "new"}


def test_a_prompt_without_an_answer_may_take_all_pages() -> None:
    scheduler = Scheduler(kv_cache(4), max_num_seqs=4, max_num_batched_tokens=256)
    scheduler.add(row("a", 256, 0))
    assert step(scheduler) == [("a", 256)]
    assert step(scheduler) == []


def test_a_step_rates_up_to_its_limit_and_rows_that_rate_nothing_share_it() -> None:
    scheduler = Scheduler(kv_cache(100), max_num_seqs=8, max_num_batched_tokens=1000)
    scheduler.add(row("plain", 50, 9))
    scheduler.add(row("a", MAX_RATED, 1, rated=True))
    scheduler.add(row("b", 300, 1, rated=True))
    assert step(scheduler) == [("plain", 50), ("a", MAX_RATED), ("b", 1)]
    assert step(scheduler) == [("plain", 1), ("b", MAX_RATED)]
    assert step(scheduler) == [("plain", 1), ("b", 300 - MAX_RATED - 1)]


def test_a_row_that_waits_to_be_rated_holds_nobody_else_back() -> None:
    scheduler = Scheduler(kv_cache(100), max_num_seqs=8, max_num_batched_tokens=1000)
    for name, prompt, rated in (("a", 600, True), ("b", 300, True), ("c", 300, True), ("plain", 50, False)):
        scheduler.add(row(name, prompt, 9, rated=rated))
    assert step(scheduler) == [("a", MAX_RATED), ("plain", 50)]
    assert [one.id for one in scheduler.waiting] == ["b", "c"]


@settings(max_examples=times(60, 2000), deadline=None)
@given(
    rows=st.lists(
        st.tuples(st.integers(1, 200), st.integers(0, 120), st.integers(0, 12), st.booleans()), min_size=1, max_size=12
    ),
    pages=st.integers(5, 20),
    seqs=st.integers(1, 6),
    budget=st.integers(1, 300),
    aborts=st.sets(st.integers(0, 11), max_size=4),
)
def test_every_row_ends_whatever_comes(
    rows: list[tuple[int, int, int, bool]], pages: int, seqs: int, budget: int, aborts: set[int]
) -> None:
    scheduler = Scheduler(kv_cache(pages), seqs, budget)
    made = [(row(str(i), prompt, answer, rated=rated), at) for i, (prompt, answer, at, rated) in enumerate(rows)]
    aborted = [sequence for i, (sequence, _) in enumerate(made) if i in aborts]
    for turn in range(20_000):
        for sequence, at in made:
            if at == turn:
                scheduler.add(sequence)
        if turn == 15:
            for sequence in aborted:
                scheduler.remove(sequence)
        done = step(scheduler)
        assert sum(count for _, count in done) <= max(budget, seqs)
        assert done or not (scheduler.waiting or scheduler.running), "there is work, and none is done"
        if turn > 15 and not done:
            break
    finished = [sequence for sequence, _ in made if sequence not in aborted]
    assert all(sequence.num_generated == sequence.max_tokens and not sequence.unrated for sequence in finished)


def test_outline_of_the_fixture_has_no_sites() -> None:
    assert replace(OUTLINE).linears == ()

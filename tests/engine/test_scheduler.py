"""Scheduler: decoding never waits for prompts, every row gets there, and pages are never lost or shared."""

from __future__ import annotations

import random
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from graftwork.engine.chunk import MAX_RATED
from graftwork.engine.pooler import Pooler
from graftwork.engine.request import Caller
from graftwork.engine.scheduler import UNKNOWN, Scheduler
from graftwork.engine.step_cost import LEAST_PROMPT_TOKENS, StepCost
from support.pages import OUTLINE, kv_cache
from support.rows import Pages, row, step
from support.scale import times


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
    scheduler.add(row("c", 60, 3))
    assert step(scheduler) == [("a", 1), ("b", 63)]
    assert step(scheduler) == [("a", 1), ("b", 37), ("c", 26)]
    assert step(scheduler) == [("a", 1), ("b", 1), ("c", 34)]


def test_a_long_prompt_leaves_half_to_short_ones_behind_it() -> None:
    scheduler = Scheduler(kv_cache(100), max_num_seqs=8, max_num_batched_tokens=64)
    for name, prompt in (("long", 1000), ("longer", 2000), ("short", 30), ("brief", 12)):
        scheduler.add(row(name, prompt, 3))
    assert step(scheduler) == [("long", 32), ("short", 20), ("brief", 12)]
    assert step(scheduler) == [("brief", 1), ("long", 53), ("short", 10)]
    assert step(scheduler) == [("short", 1), ("brief", 1), ("long", 62)]
    assert [one.id for one in scheduler.waiting] == ["longer"], "nobody is admitted without a share"


def test_while_rows_decode_prompts_get_what_keeps_a_step_within_the_target() -> None:
    scheduler = Scheduler(kv_cache(100), 8, 512, inter_token_target_s=0.1)
    cost = StepCost(fixed_s=0.01, token_s=0.0005)
    scheduler.add(row("a", 600, 9))
    assert step(scheduler, cost) == [("a", 512)], "nothing decodes that could be held up"
    assert step(scheduler, cost) == [("a", 88)]
    scheduler.add(row("b", 600, 3))
    assert step(scheduler, cost) == [("a", 1), ("b", 175)]  # 10 ms + 176 x 0.5 ms, and 176 is 11 x 16
    assert step(scheduler, UNKNOWN) == [("a", 1), ("b", 425)]


def test_short_rows_do_not_pass_one_that_waits_for_pages() -> None:
    scheduler = Scheduler(kv_cache(4), max_num_seqs=8, max_num_batched_tokens=1000)
    scheduler.add(row("old", 100, 20))
    assert step(scheduler) == [("old", 100)]
    for name, prompt in (("large", 150), ("small", 10)):
        scheduler.add(row(name, prompt, 3))
    assert step(scheduler) == [("old", 1)]


def test_pages_that_a_running_prompt_still_lacks_are_not_given_away() -> None:
    scheduler = Scheduler(kv_cache(8), max_num_seqs=8, max_num_batched_tokens=64)
    scheduler.add(row("long", 400, 2))  # 7 pages, of which the first step takes one
    scheduler.add(row("short", 20, 2))
    assert step(scheduler) == [("long", 64)], "the short one would be preempted before long"


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
    scheduler = Scheduler(kv_cache(100), max_num_seqs=8, max_num_batched_tokens=512)  # two of them would fill it
    for name, prompt, rated in (("a", 600, True), ("b", 300, True), ("c", 300, True), ("plain", 50, False)):
        scheduler.add(row(name, prompt, 9, rated=rated))
    assert step(scheduler) == [("a", MAX_RATED), ("plain", 50)]
    assert [one.id for one in scheduler.waiting] == ["b", "c"]


@settings(max_examples=times(60, 2000), deadline=None)
@given(
    rows=st.lists(
        st.tuples(
            st.integers(1, 200), st.integers(0, 120), st.integers(0, 12), st.booleans(), st.sampled_from(["", "a", "b"])
        ),
        min_size=1,
        max_size=12,
    ),
    pages=st.integers(5, 20),
    seqs=st.integers(1, 6),
    budget=st.integers(1, 300),
    aborts=st.dictionaries(st.integers(0, 11), st.booleans(), max_size=4),
    cost=st.builds(StepCost, st.floats(0, 0.2), st.floats(0, 0.01)),
)
def test_every_row_ends_whatever_comes(
    rows: list[tuple[int, int, int, bool, str]],
    pages: int,
    seqs: int,
    budget: int,
    aborts: dict[int, bool],
    cost: StepCost,
) -> None:
    """`aborts`: rows that leave in the midst, and whether because they failed."""
    scheduler = Scheduler(kv_cache(pages), seqs, budget, inter_token_target_s=0.1)
    made = [
        (row(str(i), prompt, answer, rated=rated, whose=whose, caller=Caller(whose)), at)
        for i, (prompt, answer, at, rated, whose) in enumerate(rows)
    ]
    aborted = {sequence: aborts[i] for i, (sequence, _) in enumerate(made) if i in aborts}
    written: Pages = {}
    for turn in range(20_000):
        for sequence, at in made:
            if at == turn:
                scheduler.add(sequence)
        if turn == 15:
            for sequence, failed in aborted.items():
                scheduler.remove(sequence, failed=failed)
        ready = {one.id for one in scheduler.running if one.num_pending == 1}
        here = min(seqs, len(scheduler.running) + len(scheduler.waiting))
        done = step(scheduler, cost, written)
        tokens, decoding = sum(count for _, count in done), sum(name in ready for name, _ in done)  # the rest gave way
        assert tokens <= max(budget, seqs)
        if decoding and tokens > decoding + LEAST_PROMPT_TOKENS:
            assert cost.of(tokens) <= max(0.1, 3 * cost.of(here)) * 1.001
        assert done or not (scheduler.waiting or scheduler.running), "there is work, and none is done"
        if turn > 15 and not done:
            break
    finished = [sequence for sequence, _ in made if sequence not in aborted]
    assert all(sequence.num_generated == sequence.max_tokens and not sequence.unrated for sequence in finished)


def test_a_row_begins_behind_what_is_cached_and_only_the_rest_is_shared_out() -> None:
    scheduler = Scheduler(kv_cache(8), max_num_seqs=8, max_num_batched_tokens=64)
    scheduler.add(row("a", 130, 1, whose="x"))
    assert [step(scheduler) for _ in range(3)] == [[("a", 64)], [("a", 64)], [("a", 2)]]
    scheduler.add(row("b", 150, 3, whose="x"))
    scheduler.add(row("c", 128, 3, whose="x"))
    scheduler.add(row("d", 20, 3, whose="y"))
    assert step(scheduler) == [("b", 22), ("c", 22), ("d", 20)], "c has one of its two blocks: it must end with a token"
    assert (scheduler.reuse.num_queried, scheduler.reuse.num_hit) == (130 + 150 + 128 + 20, 128 + 64)
    assert step(scheduler) == [("b", 1), ("d", 1), ("c", 42)]


def test_pages_that_others_hold_need_no_room_and_idle_ones_do() -> None:
    scheduler = Scheduler(kv_cache(5), max_num_seqs=8, max_num_batched_tokens=512)
    scheduler.add(row("a", 200, 3, whose="x"))
    assert step(scheduler) == [("a", 200)]  # four pages, of which three are full
    scheduler.add(row("b", 192, 3, whose="x"))
    assert step(scheduler) == [("a", 1)], "it lacks two pages, and one must stay free"
    assert not next(iter(scheduler.waiting)).pages and not next(iter(scheduler.waiting)).num_computed
    assert step(scheduler) == [("a", 1)]
    assert step(scheduler) == [("b", 64)], "two of its four pages are there, idle"
    assert scheduler._kv.num_used == 3


def test_a_row_that_fails_takes_its_blocks_out_of_the_cache() -> None:
    scheduler = Scheduler(kv_cache(8), max_num_seqs=8, max_num_batched_tokens=512)
    bad = row("bad", 130, 9, whose="x")
    scheduler.add(bad)
    step(scheduler)
    scheduler.remove(bad, failed=True)
    scheduler.check()
    scheduler.add(row("good", 130, 1, whose="x"))
    assert step(scheduler) == [("good", 130)]


def test_a_row_that_was_preempted_comes_back_with_what_is_left_of_it() -> None:
    scheduler = Scheduler(kv_cache(6), max_num_seqs=4, max_num_batched_tokens=512)
    old, new = row("old", 100, 120, whose="x"), row("new", 180, 80, whose="y")
    scheduler.add(old)
    scheduler.add(new)
    counts: dict[str, list[int]] = {"old": [], "new": []}
    while scheduler.running or scheduler.waiting:
        for name, count in step(scheduler):
            counts[name].append(count)
    assert scheduler.num_preemptions and (old.num_generated, new.num_generated) == (120, 80)
    again = [count for count in counts["new"][1:] if count > 1]
    assert again and max(again) < 128, "two of its blocks at least were still there"
    assert new.num_cached == 0, "what it had itself computed is no gift of others"


def closed_loop(target_s: float) -> tuple[float, float]:
    """Tokens per second, and the 99th percentile of the time between two tokens, of 32 clients on no machine."""
    scheduler, draw = Scheduler(kv_cache(1000), 64, 512, target_s), random.Random(1)
    cost, now, made, tokens = UNKNOWN, 0.0, 0, 0
    last: dict[str, float] = {}
    gaps: list[float] = []
    while made < 128 or scheduler.running:
        while made < 128 and len(scheduler.running) + len(scheduler.waiting) < 32:
            made += 1
            scheduler.add(row(str(made), draw.choice([16, 32, 64, 128, 256, 512]), 4 + made % 32))
        chunks = scheduler.schedule(cost)
        decoding = sum(chunk.count == 1 and chunk.completes for chunk in chunks)
        prompt_tokens = sum(chunk.count for chunk in chunks) - decoding
        took = (0.008 + 0.0004 * decoding + 0.00025 * prompt_tokens) * draw.uniform(1, 1.1)
        now, cost = now + took, cost.after(decoding, prompt_tokens, took)
        for chunk in chunks:
            completes, sequence = chunk.completes, chunk.sequence
            sequence.num_computed += chunk.count
            if not completes:
                continue
            sequence.tokens.append(2)
            tokens += 1
            gaps += [now - last[sequence.id]] if sequence.id in last else []
            last[sequence.id] = now
            if sequence.num_generated == sequence.max_tokens:
                scheduler.remove(sequence)
    return tokens / now, sorted(gaps)[len(gaps) * 99 // 100]


def test_a_target_bounds_the_time_between_tokens_and_costs_little_throughput() -> None:
    free, long = closed_loop(0.0)
    for target_s in (0.06, 0.1):
        throughput, gap = closed_loop(target_s)
        assert gap < 1.1 * target_s < long
        assert throughput > 0.9 * free


def test_outline_of_the_fixture_has_no_sites() -> None:
    assert replace(OUTLINE).linears == ()

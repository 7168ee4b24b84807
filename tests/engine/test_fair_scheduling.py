"""Scheduler between tenants: nobody is starved, nobody gets much more than its share, and nothing is paid for twice."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graftwork.engine.fair_shares import OUTPUT_WEIGHT, PROMPT_WEIGHT, FairShares, unfairness_bound
from graftwork.engine.request import Caller
from graftwork.engine.scheduler import Scheduler
from graftwork.engine.sequence import Sequence
from support.pages import kv_cache
from support.rows import row, step
from support.scale import times

X, Y, Z = Caller("x"), Caller("y"), Caller("z")
WEIGHTS = {"x": 1.0, "y": 0.5, "z": 3.0}


@dataclass
class Paid(FairShares):
    """Keeps what was given to whom, by weighted tokens, beside the counters."""

    given: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        FairShares.__init__(self)

    def give(self, caller: Caller, prompt_tokens: int) -> None:
        super().give(caller, prompt_tokens)
        self.given[caller.tenant] += int(PROMPT_WEIGHT) * prompt_tokens

    def generated(self, caller: Caller) -> None:
        super().generated(caller)
        self.given[caller.tenant] += int(OUTPUT_WEIGHT)


class Machine:
    """A scheduler whose steps are counted; rows get their arrival when they come, as in the loop."""

    def __init__(self, seqs: int, pages: int = 1000, budget: int = 512) -> None:
        self.scheduler = Scheduler(kv_cache(pages), seqs, budget)
        self.paid = Paid()
        self.scheduler._shares = self.scheduler.waiting._shares = self.paid
        self.seqs, self.steps, self._names = seqs, 0, itertools.count(1)

    def comes(self, caller: Caller, prompt: int, answer: int, *, whose: str = "") -> Sequence:
        number = next(self._names)
        made = row(str(number), prompt, answer, caller=caller, whose=whose)
        made.arrival = number
        self.scheduler.add(made)
        return made

    def step(self) -> list[tuple[str, int]]:
        self.steps += 1
        return step(self.scheduler)

    def steps_until_it_starts(self, wanted: Sequence) -> int:
        began = self.steps
        while not wanted.num_computed:
            self.step()
        return self.steps - began

    def run_dry(self) -> None:
        while self.scheduler.running or self.scheduler.waiting:
            assert self.step(), "there is work, and none is done"

    def has_room_for(self, head: Sequence) -> bool:
        """Whether the row whose turn it is fits; in the next step, where some ended or were preempted in this one."""
        scheduler = self.scheduler
        lacking = sum(map(scheduler._missing, [*scheduler.running, head]))
        return len(scheduler.running) < self.seqs and scheduler._kv.num_free > lacking

    def running(self, caller: Caller) -> int:
        return sum(one.caller.tenant == caller.tenant for one in self.scheduler.running)


def test_a_full_batch_makes_a_place_for_who_has_none_at_once() -> None:
    machine = Machine(seqs=4)
    flood = [machine.comes(X, 10, 200) for _ in range(50)]
    for _ in range(5):
        machine.step()
    light = machine.comes(Y, 10, 5)
    assert machine.steps_until_it_starts(light) == 1
    assert [one.id for one in machine.scheduler.running] == ["1", "2", "3", light.id], "the youngest of x gave way"
    while light.num_generated < 5:
        machine.step()
    machine.step()
    assert flood[3] in machine.scheduler.running, "and is back first"


def test_places_change_hands_until_shares_are_even_and_not_back() -> None:
    machine = Machine(seqs=8)
    for _ in range(20):
        machine.comes(X, 10, 400)
    machine.step()
    for _ in range(20):
        machine.comes(Y, 10, 400)
    for _ in range(10):
        machine.step()
    assert (machine.running(X), machine.running(Y)) == (4, 4) and machine.scheduler.num_preemptions == 4
    for _ in range(300):
        machine.step()
    assert machine.scheduler.num_preemptions == 4


def test_a_weight_of_three_holds_three_times_as_many_places() -> None:
    machine = Machine(seqs=8)
    for _ in range(20):
        machine.comes(X, 10, 400)
    machine.step()
    for _ in range(20):
        machine.comes(Caller("heavy", weight=3.0), 10, 400)
    for _ in range(10):
        machine.step()
    assert machine.running(X) == 2


def test_a_row_that_gave_way_is_left_alone_until_it_is_half_as_long_again() -> None:
    machine = Machine(seqs=2)
    rows = [machine.comes(X, 100, 400) for _ in range(2)]
    computed, light = 0, machine.comes(Y, 1, 1)
    while machine.scheduler.running or machine.scheduler.waiting:  # one short request after the other
        if light.num_generated and any(one.num_generated < 400 for one in rows):
            light = machine.comes(Y, 1, 1)
        computed += sum(count for name, count in machine.step() if name in ("1", "2"))
    assert machine.scheduler.num_preemptions <= 2 * (1 + math.log(500 / 100, 1.5))
    assert 2 * 500 < computed <= 2 * 500 * 4


def test_pages_are_shared_too() -> None:
    machine = Machine(seqs=16, pages=20)
    for _ in range(6):
        machine.comes(X, 64 * 4 - 20, 200)
    for _ in range(3):
        machine.step()
    light = machine.comes(Y, 100, 10)
    assert machine.steps_until_it_starts(light) == 1
    machine.run_dry()


def test_nobody_gives_way_where_it_would_not_help() -> None:
    machine = Machine(seqs=16, pages=20)
    for _ in range(6):
        machine.comes(X, 64 * 3 - 20, 100)
    for _ in range(3):
        machine.step()
    before = machine.scheduler.num_preemptions
    machine.comes(Y, 64 * 15, 10)  # more than half of all pages: x is not above it when it has them
    machine.step()
    assert machine.scheduler.num_preemptions == before
    machine.run_dry()


def test_nobody_gives_way_for_pages_that_the_owed_row_finds_filled() -> None:
    machine = Machine(seqs=16, pages=40)
    for _ in range(10):
        machine.comes(X, 64 * 2 + 20, 40)
    machine.comes(Y, 64 * 4 + 20, 40, whose="y")
    for _ in range(6):
        machine.step()
    assert machine.scheduler._kv.num_free == 5 and len(machine.scheduler.running) == 11
    owed = machine.comes(Y, 64 * 4 + 20, 5, whose="y")
    assert machine.steps_until_it_starts(owed) == 1
    assert owed.num_shared == 4 and machine.scheduler.num_preemptions == 0


SHARING = st.lists(
    st.tuples(st.sampled_from("xyz"), st.sampled_from(["", "a", "b"]), st.integers(1, 400), st.integers(1, 60),
              st.integers(0, 40)),
    min_size=2, max_size=25,
)  # fmt: skip


@settings(max_examples=times(60, 2000), deadline=None)
@given(asked=SHARING, pages=st.integers(8, 24), seqs=st.integers(1, 6))
def test_a_row_for_which_others_give_way_begins_in_the_same_step(
    asked: list[tuple[str, str, int, int, int]], pages: int, seqs: int
) -> None:
    machine = Machine(seqs, pages, budget=10_000)
    scheduler = machine.scheduler
    owed: list[Sequence] = []
    give_way = scheduler._give_way

    def watched(first: Sequence) -> None:
        before = scheduler.num_preemptions
        give_way(first)
        owed[:] = [first] if scheduler.num_preemptions > before else []

    scheduler._give_way = watched  # type: ignore[assignment, method-assign]
    for turn in range(20_000):
        for tenant, whose, prompt, answer, at in asked:
            if at == turn:
                machine.comes(Caller(tenant, WEIGHTS[tenant]), prompt, answer, whose=whose and tenant + whose)
        owed.clear()
        done = machine.step()
        assert {one.id for one in owed} <= {name for name, _ in done}, "rows gave way for nothing"
        if turn > 40 and not done:
            break
    assert not scheduler.running and not scheduler.waiting


def test_long_prompts_of_one_do_not_delay_a_short_one_of_another() -> None:
    machine = Machine(seqs=16, budget=64)
    for _ in range(10):
        machine.comes(X, 3000, 5)
    machine.step()
    short = machine.comes(Y, 60, 1)
    machine.step()
    machine.step()
    assert short.num_generated == 1


@pytest.mark.parametrize("seqs", [1, 4])
def test_one_request_waits_for_a_bounded_time_behind_fifty_of_another(seqs: int) -> None:
    """T86: with one place nobody has more than its share, so it waits for the row that runs and no longer."""
    machine = Machine(seqs)
    for _ in range(50):
        machine.comes(X, 30, 40)
    for _ in range(10):
        machine.step()
    assert machine.steps_until_it_starts(machine.comes(Y, 30, 10)) <= (42 if seqs == 1 else 1)


def test_a_later_priority_never_goes_before_an_earlier_one_of_its_tenant() -> None:
    machine = Machine(seqs=1)
    machine.comes(X, 5, 3)
    machine.step()
    slow, fast = machine.comes(Caller("x", priority=5), 5, 3), machine.comes(Caller("x", priority=-5), 5, 3)
    while not slow.num_computed:
        machine.step()
    assert fast.num_generated == 3


REQUESTS = st.lists(
    st.tuples(st.sampled_from("xyz"), st.integers(1, 150), st.integers(0, 60), st.integers(0, 40)),
    min_size=1, max_size=25,
)  # fmt: skip


@settings(max_examples=times(60, 2000), deadline=None)
@given(asked=REQUESTS, pages=st.integers(4, 20), seqs=st.integers(1, 5), budget=st.integers(16, 200),
       leave=st.sets(st.integers(0, 24), max_size=4))  # fmt: skip
def test_every_row_ends_and_is_paid_for_once_and_no_place_is_left_empty(
    asked: list[tuple[str, int, int, int]], pages: int, seqs: int, budget: int, leave: set[int]
) -> None:
    machine, made = Machine(seqs, pages, budget), list[Sequence]()
    for turn in range(20_000):
        for tenant, prompt, answer, at in asked:
            if at == turn:
                made.append(machine.comes(Caller(tenant, WEIGHTS[tenant]), prompt, answer))
        if turn == 20:
            left = {one.id for place, one in enumerate(made) if place in leave}
            for one in made:
                if one.id in left:
                    machine.scheduler.remove(one)
        scheduler = machine.scheduler
        head, preempted = next(iter(scheduler.waiting), None), scheduler.num_preemptions
        done = machine.step()
        ended = any(name not in {one.id for one in scheduler.running} for name, _ in done)
        if not ended and preempted == scheduler.num_preemptions and sum(count for _, count in done) < budget // 2:
            assert head is None or head not in scheduler.waiting or not machine.has_room_for(head), (
                "a place is empty, and one waits"
            )
        assert done or not (scheduler.waiting or scheduler.running), "there is work, and none is done"
        if turn > 40 and not done:
            break
    ended_rows = [one for one in made if one.id not in left]
    assert all(one.num_generated == one.max_tokens for one in ended_rows)
    if not left:
        want = Counter[str]()
        for one in made:
            want[one.caller.tenant] += int(PROMPT_WEIGHT) * one.num_prompt + int(OUTPUT_WEIGHT) * one.max_tokens
        assert machine.paid.given == want


@settings(max_examples=times(40, 300), deadline=None)
@given(data=st.data(), seqs=st.integers(1, 6), budget=st.integers(32, 300), others=st.integers(0, 2))
def test_two_tenants_that_always_wait_differ_by_no_more_than_the_bound(
    data: st.DataObject, seqs: int, budget: int, others: int
) -> None:
    machine = Machine(seqs, pages=64, budget=budget)
    callers = [Caller("x", 1.0), Caller("y", data.draw(st.sampled_from([1.0, 2.0])))]
    callers += [Caller(f"o{index}") for index in range(others)]
    kinds = {one.tenant: data.draw(st.tuples(st.integers(1, 120), st.integers(1, 40))) for one in callers}
    late = data.draw(st.integers(0, 30))  # steps that y comes after x
    since: Counter[str] | None = None
    for turn in range(400):
        for place, caller in enumerate(callers):
            waiting = sum(one.caller is caller for one in machine.scheduler.waiting)
            for _ in range(waiting, seqs + 1 if place != 1 or turn >= late else 0):  # more than one step takes
                machine.comes(caller, *kinds[caller.tenant])
        machine.step()
        if turn == late:
            since = Counter(machine.paid.given)
        if since is not None:
            x, y = ((machine.paid.given[one.tenant] - since[one.tenant]) / one.weight for one in callers[:2])
            bound = unfairness_bound(max(p for p, _ in kinds.values()), max(a for _, a in kinds.values()), seqs)
            assert abs(x - y) <= bound / min(one.weight for one in callers[:2])


@settings(max_examples=times(40, 1000), deadline=None)
@given(flood=st.tuples(st.integers(1, 200), st.integers(1, 60)), light=st.tuples(st.integers(1, 60), st.integers(1, 9)),
       seqs=st.integers(2, 6), warm=st.integers(1, 60))  # fmt: skip
def test_who_has_less_than_its_share_starts_before_any_row_of_a_flood_ends_and_begins(
    flood: tuple[int, int], light: tuple[int, int], seqs: int, warm: int
) -> None:
    machine = Machine(seqs, budget=256)
    for turn in range(warm + 400):
        while len(machine.scheduler.waiting) < 3:
            machine.comes(X, *flood)
        machine.step()
        if turn == warm:
            break
    one = machine.comes(Y, *light)
    assert machine.steps_until_it_starts(one) <= 2

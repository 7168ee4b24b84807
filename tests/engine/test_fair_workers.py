"""Threads that tenants share: turns, the most of one, jobs that several wait for, and the bound that is stated."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graftwork.engine.fair_workers import FairWorkers, Job, longest_wait_s
from graftwork.errors import TooManyRequests, Unavailable


class Held:
    """Workers whose jobs wait to be let go, and who began, in order."""

    def __init__(self, threads: int = 4, most_waiting: int = 100) -> None:
        self.workers = FairWorkers[str](threads, most_waiting, 1.0, "jobs")
        self.begun: list[str] = []
        self._changed = threading.Condition()
        self._gates: dict[str, threading.Event] = {}

    def job(self, name: str) -> Job[str]:
        gate = self._gates[name] = threading.Event()

        def call() -> str:
            with self._changed:
                self.begun.append(name)
                self._changed.notify_all()
            gate.wait(20)
            return name

        return Job(call)

    def ask(self, tenant: str, name: str) -> Job[str]:
        job = self.job(name)
        self.workers.join(tenant, job)
        return job

    def end(self, name: str) -> None:
        self._gates[name].set()

    def until(self, count: int) -> list[str]:
        """Who began, when there are so many."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.begun) >= count, 20)
            return list(self.begun)

    def close(self) -> None:
        for gate in self._gates.values():
            gate.set()
        self.workers.close()


@pytest.fixture
def held() -> Iterator[Held]:
    made = Held()
    yield made
    made.close()


def test_a_tenant_has_half_of_the_threads_and_others_begin_at_once(held: Held) -> None:
    for number in range(6):
        held.ask("a", f"a{number}")
    assert sorted(held.until(2)) == ["a0", "a1"]
    held.ask("b", "b0")
    assert held.until(3)[2:] == ["b0"]
    held.ask("c", "c0")
    held.ask("c", "c1")
    assert held.until(4)[3:] == ["c0"]
    held.end("b0")
    assert held.until(5)[4:] == ["c1"], "b wants no more, and a has its half"
    held.end("a0")
    assert held.until(6)[5:] == ["a2"], "inside a tenant the first that came"


def test_one_who_comes_back_is_behind_those_who_waited(held: Held) -> None:
    for tenant in "abcd":
        held.ask(tenant, f"{tenant}0")
    held.until(4)
    for tenant in "eab":  # and each has more than one to ask
        held.ask(tenant, f"{tenant}1")
        held.ask(tenant, f"{tenant}2")
    order = []
    for number, ended in enumerate(["c0", "d0", "a0", "b0"], start=5):
        held.end(ended)
        order.append(held.until(number)[-1])
        held.ask("c", f"c{number}")
    assert order == ["e1", "c5", "a1", "b1"], "first those who have nothing under way, of them who waited longest"


def test_a_job_that_two_wait_for_begins_at_the_first_turn_of_either(held: Held) -> None:
    for number in range(5):
        held.ask("a", f"a{number}")
    shared = held.ask("a", "shared")
    held.until(2)
    held.workers.join("b", shared)
    assert held.until(3)[2:] == ["shared"]
    held.end("shared")
    assert shared.future.result(20) == "shared"
    held.end("a0")
    held.end("a1")
    assert sorted(held.until(5)[3:]) == ["a2", "a3"]


def test_what_nobody_waits_for_is_never_begun(held: Held) -> None:
    for number in range(2):
        held.ask("a", f"a{number}")
    held.until(2)
    gone, stays = held.ask("a", "gone"), held.ask("a", "stays")
    held.workers.join("a", stays)
    assert not held.workers.leave("a", stays), "one of two"
    assert held.workers.leave("a", gone)
    held.end("a0")
    assert held.until(3)[2:] == ["stays"]
    assert not held.workers.leave("a", stays), "it is under way"


def test_of_a_tenant_only_so_many_may_wait() -> None:
    held = Held(most_waiting=2)
    try:
        for number in range(4):
            held.ask("a", f"a{number}")
        with pytest.raises(TooManyRequests, match="2 jobs of your requests wait"):
            held.ask("a", "a4")
        held.ask("b", "b0")
        assert "b0" in held.until(3)
    finally:
        held.close()


def test_closing_tells_who_was_not_begun(held: Held) -> None:
    jobs = [held.ask("a", f"a{number}") for number in range(4)]
    held.until(2)
    closing = threading.Thread(target=held.workers.close)
    closing.start()
    for job in jobs[2:]:
        with pytest.raises(Unavailable):
            job.future.result(20)
    held.end("a0")
    held.end("a1")
    closing.join(20)
    assert [job.future.result(0) for job in jobs[:2]] == ["a0", "a1"]
    with pytest.raises(Unavailable):
        held.ask("a", "late")
    assert held.until(2) == held.begun[:2]


def test_an_error_is_told_and_its_thread_goes_on(held: Held) -> None:
    def fails() -> str:
        raise KeyError("x")

    jobs = [Job(fails) for _ in range(9)]
    for job in jobs:
        held.workers.join("a", job)
    assert all(isinstance(job.future.exception(20), KeyError) for job in jobs)


class _Rounds:
    """In place of a pool: what was begun in one round ends in the next."""

    def __init__(self) -> None:
        self._begun: list[Callable[[], None]] = []

    def submit(self, call: Callable[..., None], *args: object) -> None:
        self._begun.append(partial(call, *args))

    def end_all(self) -> None:
        begun, self._begun = self._begun, []
        for call in begun:
            call()


@given(st.lists(st.integers(0, 9), max_size=60), st.integers(1, 5))
def test_nobody_waits_longer_than_is_stated(arrivals: list[int], threads: int) -> None:
    workers, pool = FairWorkers[None](threads, 1000, 1.0, "jobs"), _Rounds()
    workers.close()
    workers._closed, workers._pool = False, cast(ThreadPoolExecutor, pool)
    due: dict[str, float] = {}  # of tenants that wait and have nothing under way
    now = 0
    while arrivals or workers._queues:
        for tenant in map(str, arrivals[:3]):
            waiting = set(workers._queues) - {tenant}
            workers.join(tenant, Job(lambda: None))
            if tenant not in due and not workers._under_way[tenant]:
                due[tenant] = now + longest_wait_s(len(waiting), threads, 1.0)
        del arrivals[:3]
        now += 1
        pool.end_all()
        for tenant in [one for one in due if workers._under_way[one]]:
            assert now <= due.pop(tenant)
    assert not due

"""A program of kernels: all jobs of one are done before the next begins, whoever does them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from graftwork.kernels import parallel, program
from graftwork.kernels.jit import address, ints_at, jit, take_number
from graftwork.kernels.parallel import ParallelKernel
from graftwork.kernels.program import Program

pytestmark = pytest.mark.pairs  # nothing else is run as a program, and its pause is an instruction of theirs
JOBS = 50


@jit
def _sum(arguments: int) -> None:
    """Job n puts the sum of one array, and n, into another: right only where the first is complete."""
    a = ints_at(arguments, 4)
    source, target = ints_at(a[2], JOBS), ints_at(a[3], JOBS)
    while True:
        job = take_number(arguments)
        if job >= a[1]:
            break
        target[job] = source.sum() % 1000 + job


def _body(arguments: int) -> None:
    _sum(arguments)


KERNEL = ParallelKernel(_body, _body)


class Chain:
    """Rounds of two kernels that read what the one before wrote."""

    def __init__(self, rounds: int) -> None:
        self.arrays = [np.zeros(JOBS, np.int64) for _ in range(2 * rounds + 1)]
        self.rounds = rounds

    def calls(self, number: int, jobs: int = JOBS) -> list[Any]:
        kernel = KERNEL.compiled(torch.bfloat16)
        places = [address(one) for one in self.arrays[2 * number : 2 * number + 3]]
        return [(kernel, jobs, 0, places[one], places[one + 1]) for one in (0, 1)]

    def expected(self, jobs: int = JOBS) -> np.ndarray[Any, Any]:
        last = self.arrays[0]
        for _ in range(2 * self.rounds):
            mine = np.zeros(JOBS, np.int64)
            mine[:jobs] = last.sum() % 1000 + np.arange(jobs)
            last = mine
        return last


@pytest.fixture(params=[1, 2, 5])
def threads(request: pytest.FixtureRequest, one_thread: None) -> Iterator[None]:
    torch.set_num_threads(request.param)
    yield
    torch.set_num_threads(1)


def test_each_kernel_waits_for_the_one_before(threads: None) -> None:
    chain = Chain(40)
    made = Program([chain.calls(number) for number in range(40)])
    for start in range(20):
        chain.arrays[0][:] = start
        made.run(chain.calls(0))
        assert np.array_equal(chain.arrays[-1], chain.expected())


def test_what_changes_in_the_first_round_changes_in_all(threads: None) -> None:
    chain = Chain(3)
    made = Program([chain.calls(number) for number in range(3)])
    chain.arrays[0][:] = 7
    for jobs in (JOBS, 20, 0, 33):
        for one in chain.arrays[1:]:
            one[:] = 0
        made.run(chain.calls(0, jobs))
        assert np.array_equal(chain.arrays[-1], chain.expected(jobs))


def test_without_the_pool_the_caller_does_it_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "gomp_parallel", lambda: parallel.alone)
    chain = Chain(3)
    chain.arrays[0][:] = 9
    Program([chain.calls(number) for number in range(3)]).run(chain.calls(0))
    assert np.array_equal(chain.arrays[-1], chain.expected())


def test_more_threads_than_cores_wait_for_one_that_does_not_get_to_run() -> None:
    torch.set_num_threads(8)
    try:
        chain = Chain(20)
        chain.arrays[0][:] = 3
        Program([chain.calls(number) for number in range(20)]).run(chain.calls(0))
        assert np.array_equal(chain.arrays[-1], chain.expected())
    finally:
        torch.set_num_threads(1)

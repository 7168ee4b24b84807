"""Kernels on torch's threads: every job done once, wherever the pool and the cache are."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numba
import numpy as np
import pytest
import torch

from graftwork.kernels import parallel
from graftwork.kernels.jit import (
    BFLOAT16,
    FLOAT32,
    Elements,
    address,
    array_at,
    ints_at,
    jit,
    narrow,
    take_number,
    widen,
)
from graftwork.kernels.parallel import ParallelKernel, alone, gomp_parallel, launch
from graftwork.kernels.vectors import has_pairs


@jit
def _count(arguments: int) -> None:
    a = ints_at(arguments, 3)
    seen = ints_at(a[2], a[1])
    while True:
        job = take_number(arguments)
        if job >= a[1]:
            break
        seen[job] += 1


@jit
def _copy(arguments: int, like: Elements) -> None:
    a = ints_at(arguments, 5)
    source = array_at(a[2], a[4], FLOAT32)
    target = array_at(a[3], a[4], like)
    for i in range(a[4]):
        target[i] = narrow(widen(source[i]), target)


def _copy_bfloat16(arguments: int) -> None:
    _copy(arguments, BFLOAT16)


def _copy_float32(arguments: int) -> None:
    _copy(arguments, FLOAT32)


def _count_any(arguments: int) -> None:
    _count(arguments)


COUNT = ParallelKernel(_count_any, _count_any)
COPY = ParallelKernel(_copy_bfloat16, _copy_float32)


@pytest.mark.parametrize("pool", [gomp_parallel(), alone], ids=["gomp", "alone"])
@pytest.mark.parametrize("jobs", [1, 2, 7, 1000])
def test_every_job_is_done_once(pool: object, jobs: int, monkeypatch: pytest.MonkeyPatch, three_threads: None) -> None:
    monkeypatch.setattr(parallel, "gomp_parallel", lambda: pool)
    seen = np.zeros(jobs, np.int64)
    for _ in range(5):
        launch(COUNT.compiled(torch.float32), jobs, 1 << 30, address(seen))
    assert (seen == 5).all()


def test_two_threads_may_launch_at_once(three_threads: None) -> None:
    kernel = COUNT.compiled(torch.float32)

    def many(_: int) -> bool:
        seen = np.zeros(50, np.int64)
        for _ in range(100):
            launch(kernel, 50, 1 << 30, address(seen))
        return bool((seen == 100).all())

    with ThreadPoolExecutor(2) as pool:
        assert all(pool.map(many, range(2)))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=["bfloat16", "float32"])
def test_numbers_round_as_torch_rounds_them(dtype: torch.dtype) -> None:
    bits = torch.randint(-(2**31), 2**31 - 1, (100_000,), dtype=torch.int64).to(torch.int32)
    ends = torch.tensor([0, -(2**31), 0x7F800000, 0x7F7FFFFF, 0x3F808000, 0x3F818000, 1], dtype=torch.int32)
    given = torch.cat([bits, ends]).view(torch.float32)
    got = torch.empty(len(given), dtype=dtype)
    launch(COPY.compiled(dtype), 1, 0, given.data_ptr(), got.data_ptr(), len(given))
    want = given.to(dtype)
    if dtype == torch.bfloat16 and has_pairs():  # to its instruction what is less than any normal number is zero
        want[given.abs() < torch.finfo(dtype).smallest_normal] = 0
    assert torch.equal(got.isnan(), given.isnan())
    assert torch.equal(got[~got.isnan()], want[~got.isnan()])


def test_compiles_where_no_cache_can_be_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def nowhere(*_: object) -> None:
        raise RuntimeError("cannot cache function: no locator available")

    compiled = numba.cfunc

    def refusing(signature: object, cache: bool = False, **options: object) -> object:
        return nowhere if cache else compiled(signature, **options)

    monkeypatch.setattr(numba, "cfunc", refusing)
    seen = np.zeros(4, np.int64)
    launch(ParallelKernel(_count_any, _count_any).compiled(torch.float32), 4, 0, address(seen))
    assert (seen == 1).all()


def test_other_dtypes_are_refused() -> None:
    with pytest.raises(KeyError):
        COUNT.compiled(torch.float16)

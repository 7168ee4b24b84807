"""Low-rank products on CPUs: one kernel call per site over all segments of the step."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

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
from graftwork.kernels.lowrank import LowRankPlan, LowRankSlots, Segment
from graftwork.kernels.parallel import ParallelKernel, launch
from graftwork.kernels.sums import BLOCK, add_rows, add_rows_block, dots, dots_block


class CpuLowRankPlan(LowRankPlan):
    """Segments cut into jobs: blocks of tokens, or single tokens where a segment is shorter."""

    def __init__(self, segments: Sequence[Segment], slots: LowRankSlots) -> None:
        super().__init__(segments, slots)
        start = np.fromiter((s.start for s in self.segments), np.int64, len(self.segments))
        length = np.fromiter((s.stop for s in self.segments), np.int64, len(self.segments)) - start
        step = np.where(length < BLOCK, 1, BLOCK)
        jobs = -(-length // step)
        owner = np.repeat(np.arange(len(start)), jobs)
        token = (np.arange(len(owner)) - np.repeat(np.cumsum(jobs) - jobs, jobs)) * step[owner]
        # For each job: first token, tokens, 1 or BLOCK at a time; then rank, A and B at every site.
        self._jobs = len(owner)
        self._table = np.empty((3 + 3 * self.rank.shape[1], len(owner)), np.int64)
        self._table[0] = start[owner] + token
        self._table[1] = np.minimum(length[owner] - token, step[owner])
        self._table[2] = step[owner]
        self._table[3::3] = self.rank[owner].T
        self._table[4::3] = self.a_offset[owner].T
        self._table[5::3] = self.b_offset[owner].T
        self._table_at = address(self._table)
        self._pool_at = slots.pool.data_ptr()
        self._dtype = slots.pool.dtype
        self._kernel = _KERNEL.compiled(self._dtype)
        # Elements of A and B that a site reads, for each element of its input and output.
        self._rank_sum: list[int] = self._table[3::3].sum(axis=1).tolist()

    def add(self, x: Tensor, y: Tensor, site: int) -> None:
        assert x.dtype == y.dtype == self._dtype, "the kernel reads x, y and the pool as one dtype"
        (x_stride, x_step), (y_stride, y_step) = x.stride(), y.stride()
        assert x_step == y_step == 1, "the kernel steps over rows, not columns"
        width_in, width_out = x.shape[1], y.shape[1]
        launch(
            self._kernel,
            self._jobs,
            self._rank_sum[site] * (width_in + width_out) * self._dtype.itemsize,
            self._table_at,
            site,
            self._pool_at,
            x.data_ptr(),
            x_stride,
            width_in,
            y.data_ptr(),
            y_stride,
            width_out,
        )


def warm(dtype: torch.dtype) -> None:
    """Compile for a dtype, or read it from the disk cache."""
    _KERNEL.compiled(dtype)


@jit
def _work(arguments: int, like: Elements) -> None:
    given = ints_at(arguments, 11)
    jobs, table_at, site, pool_at, x_at, x_stride, width_in, y_at, y_stride, width_out = given[1:11]
    size = like.itemsize
    line = jobs * 8  # bytes of a line of the table
    token, tokens = ints_at(table_at, jobs), ints_at(table_at + line, jobs)
    step = ints_at(table_at + 2 * line, jobs)
    here = table_at + (3 + 3 * site) * line
    rank, a, b = ints_at(here, jobs), ints_at(here + line, jobs), ints_at(here + 2 * line, jobs)
    x = np.empty(BLOCK * width_in, np.float32)
    y = np.empty(BLOCK * width_out, np.float32)
    h = np.empty(BLOCK * max(rank.max(), 1), np.float32)
    while True:
        job = take_number(arguments)
        if job >= jobs:
            break
        r = rank[job]
        if r == 0:
            continue
        at_a = array_at(pool_at + a[job] * size, r * width_in, like)
        at_b = array_at(pool_at + b[job] * size, r * width_out, like)
        _read(x_at + token[job] * x_stride * size, x_stride * size, tokens[job], width_in, x, like)
        _read(y_at + token[job] * y_stride * size, y_stride * size, tokens[job], width_out, y, like)
        if step[job] == 1:
            dots(x[:width_in], at_a, r, h)  # shrink
            add_rows(h, at_b, r, y[:width_out])  # expand
        else:
            dots_block(x, at_a, r, h)
            add_rows_block(h, at_b, r, y)
        _write(y, y_at + token[job] * y_stride * size, y_stride * size, tokens[job], width_out, like)


@jit
def _read(at: int, stride: int, tokens: int, width: int, out: Elements, like: Elements) -> None:
    for t in range(tokens):
        row = array_at(at + t * stride, width, like)
        wide = out[t * width : (t + 1) * width]
        for k in range(width):
            wide[k] = widen(row[k])


@jit
def _write(y: Elements, at: int, stride: int, tokens: int, width: int, like: Elements) -> None:
    for t in range(tokens):
        row = array_at(at + t * stride, width, like)
        wide = y[t * width : (t + 1) * width]
        for k in range(width):
            row[k] = narrow(wide[k], row)


def _bfloat16(arguments: int) -> None:
    _work(arguments, BFLOAT16)


def _float32(arguments: int) -> None:
    _work(arguments, FLOAT32)


_KERNEL = ParallelKernel(_bfloat16, _float32)

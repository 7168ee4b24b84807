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
from graftwork.kernels.lowrank import Group, LowRankPlan, LowRankSlots, Segment
from graftwork.kernels.parallel import ParallelKernel, launch
from graftwork.kernels.tiles import add_weighted, dots

BLOCK = 8  # tokens of a segment that read its matrices together
RUN = 8


class CpuLowRankPlan(LowRankPlan):
    """Segments cut into jobs of up to BLOCK tokens."""

    def __init__(self, segments: Sequence[Segment], slots: LowRankSlots) -> None:
        super().__init__(segments, slots)
        start = np.fromiter((s.start for s in self.segments), np.int64, len(self.segments))
        length = np.fromiter((s.stop for s in self.segments), np.int64, len(self.segments)) - start
        jobs = -(-length // BLOCK)
        owner = np.repeat(np.arange(len(start)), jobs)
        token = (np.arange(len(owner)) - np.repeat(np.cumsum(jobs) - jobs, jobs)) * BLOCK
        # For each job: first token, tokens; then rank, A and B at every site.
        self._jobs = len(owner)
        self._table = np.empty((2 + 3 * self.rank.shape[1], len(owner)), np.int64)
        self._table[0] = start[owner] + token
        self._table[1] = np.minimum(length[owner] - token, BLOCK)
        self._table[2::3] = self.rank[owner].T
        self._table[3::3] = self.a_offset[owner].T
        self._table[4::3] = self.b_offset[owner].T
        self._table_at = address(self._table)
        self._pool_at = slots.pool.data_ptr()
        self._dtype = slots.pool.dtype
        self._kernel = _KERNEL.compiled(self._dtype)
        # Elements of A and B that a site reads, for each element of its input and output.
        self._rank_sum: list[int] = self._table[2::3].sum(axis=1).tolist()

    def add(self, x: Tensor, y: Tensor, group: Group) -> None:
        assert x.dtype == y.dtype == self._dtype, "the kernel reads x, y and the pool as one dtype"
        (x_stride, x_step), (y_stride, y_step) = x.stride(), y.stride()
        assert x_step == y_step == 1, "the kernel steps over rows, not columns"
        width_in = x.shape[1]
        each = zip(group.sites, group.widths, strict=True)
        elements = sum(self._rank_sum[site] * (width_in + width) for site, width in each)
        launch(
            self._kernel,
            self._jobs * len(group.sites),
            elements * self._dtype.itemsize,
            self._jobs,
            self._table_at,
            self._pool_at,
            x.data_ptr(),
            x_stride,
            width_in,
            y.data_ptr(),
            y_stride,
            *group.places,
        )


def warm(dtype: torch.dtype) -> None:
    """Compile for a dtype, or read it from the disk cache."""
    _KERNEL.compiled(dtype)


@jit
def _work(arguments: int, like: Elements) -> None:
    given = ints_at(arguments, 10)
    jobs, blocks, table_at, pool_at, x_at, x_stride, width_in, y_at, y_stride = given[1:10]
    sites = jobs // blocks
    places = ints_at(arguments + 10 * 8, 3 * sites)
    size = like.itemsize
    line = blocks * 8  # bytes of a line of the table
    first, tokens = ints_at(table_at, blocks), ints_at(table_at + line, blocks)
    width_out, rank = 1, 1
    for n in range(sites):
        width_out = max(width_out, places[3 * n + 2])
        rank = max(rank, ints_at(table_at + (2 + 3 * places[3 * n]) * line, blocks).max())
    x = np.empty(BLOCK * width_in, np.float32)
    y = np.empty(BLOCK * width_out, np.float32)
    h = np.empty(BLOCK * rank, np.float32)
    run = 1 if jobs < 4 * RUN else RUN
    while True:
        begin = take_number(arguments) * run
        if begin >= jobs:
            break
        for job in range(begin, min(begin + run, jobs)):
            block = job // sites
            place = places[3 * (job % sites) : 3 * (job % sites) + 3]
            column, width = place[1], place[2]
            here = table_at + (2 + 3 * place[0]) * line + block * 8
            r, a, b = ints_at(here, 1)[0], ints_at(here + line, 1)[0], ints_at(here + 2 * line, 1)[0]
            if r == 0:
                continue
            ahead = b
            if job + 1 < min(begin + run, jobs):
                site = places[3 * ((job + 1) % sites)]
                ahead = ints_at(table_at + (3 + 3 * site) * line + (job + 1) // sites * 8, 1)[0]
            at_x, at_y = x_at + first[block] * x_stride * size, y_at + (first[block] * y_stride + column) * size
            lines = tokens[block]
            _read(at_x, x_stride * size, lines, width_in, x, like)
            _read(at_y, y_stride * size, lines, width, y, like)
            dots(x.ctypes.data, width_in * 4, pool_at + a * size, width_in * size, r,
                 h.ctypes.data, r * 4, lines, width_in, (b - a) * size, like)  # fmt: skip
            add_weighted(h.ctypes.data, r * 4, pool_at + b * size, width * size, r,
                         y.ctypes.data, width * 4, lines, width, (ahead - b) * size, like)  # fmt: skip
            _write(y, at_y, y_stride * size, lines, width, like)


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

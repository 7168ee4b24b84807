"""Low-rank products on CPUs: one kernel call per site over all segments of the step."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from graftwork.kernels import lowrank_tiles, matrix_tiles, pair_tiles
from graftwork.kernels.jit import (
    BFLOAT16,
    FLOAT32,
    Elements,
    Floats,
    address,
    array_at,
    ints_at,
    jit,
    line_at,
    narrow,
    take_number,
    widen,
)
from graftwork.kernels.lowrank import Group, LowRankPlan, LowRankSlots, Segment
from graftwork.kernels.parallel import Call, ParallelKernel, launch
from graftwork.kernels.tiles import add_in_order, add_weighted, dots
from graftwork.kernels.vectors import CACHE_LINE

BLOCK = 8  # tokens of an adapter that read its matrices together
FEWEST, LONG = 16, 64  # neighbours whose products are made in matrix registers, at once

Add = Callable[..., None]
Leave = Callable[[int], None]


class CpuLowRankPlan(LowRankPlan):
    """Tokens that use one adapter, wherever they are in the batch, cut into jobs of up to BLOCK of them.

    With `in_matrices`, FEWEST neighbours or more of one segment are jobs of up to LONG of them, whose products the
    matrix registers make: then a token's bits depend on how many neighbours it has.
    """

    def __init__(self, segments: Sequence[Segment], slots: LowRankSlots, *, in_matrices: bool = False) -> None:
        super().__init__(segments, slots)
        fewest = FEWEST if in_matrices else math.inf
        short = [s for s in self.segments if s.stop - s.start < fewest]
        parts = [part for s in self.segments if s.stop - s.start >= fewest for part in _parts(s)]
        token = np.concatenate([np.arange(s.start, s.stop) for s in short] or [np.zeros(0, np.int64)])
        slot = np.repeat([s.slot for s in short], [s.stop - s.start for s in short]).astype(np.int64)
        order = np.argsort(slot, kind="stable")
        token, slot = token[order], slot[order]
        within = np.arange(len(slot)) - np.searchsorted(slot, slot)  # place among the tokens of the same adapter
        job = len(parts) + np.cumsum(within % BLOCK == 0) - 1
        owner = np.concatenate([np.array([s.slot for s in parts], np.int64), slot[within % BLOCK == 0]])
        # For each job: how many tokens, and which (of neighbours the first); then rank, A and B at every site.
        self._jobs = len(owner)
        self._table = np.zeros((1 + BLOCK + 3 * slots.rank.shape[1], len(owner)), np.int64)
        self._table[0] = np.bincount(job, minlength=len(owner))
        self._table[1 + within % BLOCK, job] = token
        for number, part in enumerate(parts):
            self._table[:2, number] = part.stop - part.start, part.start
        self._table[1 + BLOCK :: 3] = slots.rank[owner].T
        self._table[2 + BLOCK :: 3] = slots.a_offset[owner].T
        self._table[3 + BLOCK :: 3] = slots.b_offset[owner].T
        self._table_at = address(self._table)
        self._pool_at = slots.pool.data_ptr()
        self._dtype = slots.pool.dtype
        self._kernel = (_MATRICES if in_matrices else _VECTORS).compiled(self._dtype)
        # Elements of A and B that a site reads, for each element of its input and output, and once for BLOCK tokens.
        times = -(-self._table[0] // BLOCK)
        self._rank_sum: list[int] = (self._table[1 + BLOCK :: 3] * times).sum(axis=1).tolist()

    def add(self, x: Tensor, y: Tensor, group: Group) -> bool:
        if not self.acts(group):
            return False
        launch(*self.call(x, y, group))
        return True

    def acts(self, group: Group) -> bool:
        """Whether the step's adapters have anything at these sites."""
        return any(self._rank_sum[site] for site in group.sites)

    @property
    def acts_nowhere(self) -> bool:
        """Whether they have nothing at any site."""
        return not any(self._rank_sum)

    def call(self, x: Tensor, y: Tensor, group: Group) -> Call:
        width_in, elements = x.shape[1], 0
        for site, width in zip(group.sites, group.widths, strict=True):
            elements += self._rank_sum[site] * (width_in + width)
        assert x.dtype == y.dtype == self._dtype, "the kernel reads x, y and the pool as one dtype"
        (x_stride, x_step), (y_stride, y_step) = x.stride(), y.stride()
        assert x_step == y_step == 1, "the kernel steps over rows, not columns"
        return (
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


def _parts(segment: Segment) -> Iterator[Segment]:
    """A segment cut into about equal parts of at most LONG tokens."""
    length = segment.stop - segment.start
    parts = -(-length // LONG)
    ends = [segment.start + length * part // parts for part in range(parts + 1)]
    return (Segment(start, stop, segment.slot) for start, stop in pairwise(ends))


def prepare(segments: Sequence[Segment], slots: LowRankSlots) -> CpuLowRankPlan:
    """The plan of a step, with the fastest kernels that there are."""
    in_matrices = slots.pool.dtype == torch.bfloat16 and matrix_tiles.has_registers()
    return CpuLowRankPlan(segments, slots, in_matrices=in_matrices)


def warm(dtype: torch.dtype) -> None:
    """Compile for a dtype, or read it from the disk cache."""
    _VECTORS.compiled(dtype)
    if dtype == torch.bfloat16 and matrix_tiles.has_registers():
        _MATRICES.compiled(dtype)


@jit
def _work(arguments: int, add_long: Add, leave: Leave, room_bytes: int,
          like: Elements) -> None:  # fmt: skip
    given = ints_at(arguments, 10)
    jobs, blocks, table_at, pool_at, x_at, x_stride, width_in, y_at, y_stride = given[1:10]
    sites = jobs // blocks
    places = ints_at(arguments + 10 * 8, 3 * sites)
    size = like.itemsize
    line = blocks * 8  # bytes of a line of the table
    width_out, rank = 1, 1
    for n in range(sites):
        width_out = max(width_out, places[3 * n + 2])
        rank = max(rank, ints_at(_matrices(table_at, line, places[3 * n], 0), blocks).max())
    x = np.empty(BLOCK * width_in, np.float32)
    y = np.empty(BLOCK * width_out, np.float32)
    h = np.empty(BLOCK * rank, np.float32)
    own = np.zeros((room_bytes + CACHE_LINE) // 8, np.int64)
    room = line_at(own.ctypes.data)
    while True:
        job = take_number(arguments)
        if job >= jobs:
            break
        block = job // sites
        place = places[3 * (job % sites) : 3 * (job % sites) + 3]
        column, width = place[1], place[2]
        here = _matrices(table_at, line, place[0], block)
        r, a, b = ints_at(here, 1)[0], ints_at(here + line, 1)[0], ints_at(here + 2 * line, 1)[0]
        if r == 0:
            continue
        count, first = ints_at(table_at + block * 8, 1)[0], _token(table_at, line, block, 0)
        if count > BLOCK and width_in % matrix_tiles.STEP == 0:
            add_long(x_at + first * x_stride * size, x_stride * size, count, pool_at + a * size,
                     pool_at + b * size, r, width_in, y_at + (first * y_stride + column) * size, y_stride * size,
                     width, room)  # fmt: skip
            continue
        for begin in range(0, count, BLOCK):
            tokens = min(count - begin, BLOCK)
            for t in range(tokens):
                token = _token(table_at, line, block, begin + t)
                _read(array_at(x_at + token * x_stride * size, width_in, like), x[t * width_in : (t + 1) * width_in])
                _read(array_at(y_at + (token * y_stride + column) * size, width, like), y[t * width : (t + 1) * width])
            dots(x.ctypes.data, width_in * 4, pool_at + a * size, width_in * size, r,
                 h.ctypes.data, r * 4, tokens, width_in, like)  # fmt: skip
            if tokens == 1:
                add_in_order(h.ctypes.data, pool_at + b * size, r, y.ctypes.data, width, like)
            else:
                add_weighted(h.ctypes.data, r * 4, pool_at + b * size, width * size, r,
                             y.ctypes.data, width * 4, tokens, width, 0, like)  # fmt: skip
            for t in range(tokens):
                token = _token(table_at, line, block, begin + t)
                _write(y[t * width : (t + 1) * width], array_at(y_at + (token * y_stride + column) * size, width, like))
    leave(room)
    own[0] = 0  # so that it is there until now


@jit
def _token(table_at: int, line: int, block: int, number: int) -> int:
    """A token of a block, by its number in it; those of a long one are neighbours."""
    at, count = table_at + block * 8, ints_at(table_at + block * 8, 1)[0]
    if count > BLOCK:
        token: int = ints_at(at + line, 1)[0] + number
    else:
        token = ints_at(at + (1 + number) * line, 1)[0]
    return token


@jit
def _matrices(table_at: int, line: int, site: int, block: int) -> int:
    """Where the table holds a site's rank for a block; A and B are one and two lines further."""
    at: int = table_at + (1 + BLOCK + 3 * site) * line + block * 8
    return at


@jit
def _read(row: Elements, wide: Floats) -> None:
    for k in range(len(wide)):
        wide[k] = widen(row[k])


@jit
def _write(wide: Floats, row: Elements) -> None:
    for k in range(len(wide)):
        row[k] = narrow(wide[k], row)


def _bfloat16(arguments: int) -> None:
    _work(arguments, lowrank_tiles.add_nothing, pair_tiles.leave, 0, BFLOAT16)


def _float32(arguments: int) -> None:
    _work(arguments, lowrank_tiles.add_nothing, pair_tiles.leave, 0, FLOAT32)


def _bfloat16_in_matrices(arguments: int) -> None:
    _work(arguments, lowrank_tiles.add, matrix_tiles.leave, matrix_tiles.ROOM, BFLOAT16)


_VECTORS, _MATRICES = ParallelKernel(_bfloat16, _float32), ParallelKernel(_bfloat16_in_matrices, _float32)

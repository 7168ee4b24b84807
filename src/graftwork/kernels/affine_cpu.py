"""Per-adapter vectors on CPUs: one kernel call per site over all tokens of the step that have any."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from graftwork.kernels.affine import NOTHING, AffinePlan, AffineSlots
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
from graftwork.kernels.lowrank import Segment
from graftwork.kernels.parallel import ParallelKernel, launch


class CpuAffinePlan(AffinePlan):
    """A job per token; each looks up where its vectors lie at the site."""

    def __init__(self, segments: Sequence[Segment], slots: AffineSlots) -> None:
        super().__init__(segments, slots)
        counts = [segment.stop - segment.start for segment in segments]
        owner = np.repeat(np.arange(len(counts)), counts)
        tokens = [np.arange(segment.start, segment.stop, dtype=np.int64) for segment in segments]
        self._tokens = np.concatenate(tokens) if tokens else np.zeros(0, np.int64)
        nothing = np.full(len(owner), NOTHING, np.int64)
        # For each site a table [3, jobs]: token, where its scale begins, where its shift begins.
        self._inputs = [
            np.stack([self._tokens, self.scale_in[owner, site], nothing]) if active else None
            for site, active in enumerate(self.before)
        ]
        self._outputs = [
            np.stack([self._tokens, self.scale_out[owner, site], self.shift[owner, site]]) if active else None
            for site, active in enumerate(self.after)
        ]
        self._kernel = _KERNEL.compiled(slots.pool.dtype)

    def scale_inputs(self, x: Tensor, site: int) -> Tensor:
        scaled = x.clone(memory_format=torch.contiguous_format)
        self._run(scaled, self._inputs[site])
        return scaled

    def change_outputs(self, y: Tensor, site: int) -> None:
        self._run(y, self._outputs[site])

    def _run(self, rows: Tensor, table: npt.NDArray[np.int64] | None) -> None:
        assert table is not None, "asked only where something is active"
        pool = self.slots.pool
        stride, step = rows.stride()
        assert step == 1 and rows.dtype == pool.dtype, "rows lie side by side, in the pool's dtype"
        width, jobs = rows.shape[1], table.shape[1]
        bytes_read = jobs * width * (rows.itemsize + 8)
        launch(self._kernel, jobs, bytes_read, address(table), pool.data_ptr(), rows.data_ptr(), stride, width)


def warm(dtype: torch.dtype) -> None:
    """Compile for a dtype, or read it from the disk cache."""
    _KERNEL.compiled(dtype)


@jit
def _work(arguments: int, like: Elements) -> None:
    given = ints_at(arguments, 7)
    jobs, table_at, pool_at, rows_at, stride, width = given[1:7]
    size = like.itemsize
    token, scale, shift = (
        ints_at(table_at, jobs),
        ints_at(table_at + jobs * 8, jobs),
        ints_at(table_at + 2 * jobs * 8, jobs),
    )
    while True:
        job = take_number(arguments)
        if job >= jobs:
            break
        row = array_at(rows_at + token[job] * stride * size, width, like)
        if scale[job] >= 0:
            s = array_at(pool_at + scale[job] * size, width, FLOAT32)
            if shift[job] >= 0:
                b = array_at(pool_at + shift[job] * size, width, FLOAT32)
                for i in range(width):
                    row[i] = narrow(widen(row[i]) * s[i] + b[i], row)
            else:
                for i in range(width):
                    row[i] = narrow(widen(row[i]) * s[i], row)
        elif shift[job] >= 0:
            b = array_at(pool_at + shift[job] * size, width, FLOAT32)
            for i in range(width):
                row[i] = narrow(widen(row[i]) + b[i], row)


def _bfloat16(arguments: int) -> None:
    _work(arguments, BFLOAT16)


def _float32(arguments: int) -> None:
    _work(arguments, FLOAT32)


_KERNEL = ParallelKernel(_bfloat16, _float32)

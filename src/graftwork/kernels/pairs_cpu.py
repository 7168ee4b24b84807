"""Products with a frozen bfloat16 matrix on processors that multiply bfloat16 by pairs: AVX512_BF16, or AMX.

NOTE: W lies as the instructions read it, the same for both, [out / 32, in / 2, 32, 2], so that a job's part of it is
one stream, a panel. Each sum runs over the inputs in their order, so a row's result has the same bits whatever rows
are beside it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from graftwork.kernels import matrix_tiles, pair_tiles
from graftwork.kernels.huge_pages import HugePages
from graftwork.kernels.jit import BFLOAT16, array_at, ints_at, jit, line_at, take_number
from graftwork.kernels.packed_rows import PackedRows
from graftwork.kernels.pair_tiles import WIDTH
from graftwork.kernels.parallel import Call, ParallelKernel, launch
from graftwork.kernels.vectors import CACHE_LINE, has_pairs

Panel = Callable[..., None]
Leave = Callable[[int], None]


def can_pair(weight: Tensor) -> bool:
    """Whether `PairMatrix` takes this weight on this machine."""
    return weight.dtype == torch.bfloat16 and weight.device.type == "cpu" and not weight.shape[1] % 2 and has_pairs()


class PairMatrix:
    """y = x Wᵀ + bias for one frozen W [out, in], of which it keeps its own copy."""

    def __init__(self, weight: Tensor, bias: Tensor | None, memory: HugePages) -> None:
        self.shape = self._out, self._in = weight.shape
        self._jobs = -(-self._out // WIDTH)
        self._laid = memory.empty(self._jobs * WIDTH * self._in, torch.bfloat16).view(-1, self._in // 2, WIDTH, 2)
        whole, left = divmod(self._out, WIDTH)
        self._laid[:whole] = weight[: whole * WIDTH].view(-1, WIDTH, self._in // 2, 2).transpose(1, 2)
        if left:
            self._laid[whole] = 0
            self._laid[whole, :, :left] = weight[whole * WIDTH :].view(left, -1, 2).transpose(0, 1)
        self._bias = torch.zeros(WIDTH if bias is None else self._jobs * WIDTH)
        self._bias_step = 0 if bias is None else 4
        if bias is not None:
            self._bias[: self._out] = bias

    def __call__(self, x: Tensor) -> Tensor:
        """x [tokens, in] to [tokens, out]."""
        x = x if x.stride(1) == 1 else x.contiguous()
        y = torch.empty(len(x), self._out, dtype=torch.bfloat16)
        launch(*self.call(x, y))
        return y

    def call(self, x: Tensor, y: Tensor) -> Call:
        """The product as a kernel and its arguments: x [tokens, in] to y [tokens, out], whose rows lie in one piece."""
        assert x.dtype == y.dtype == torch.bfloat16, "the kernel reads and writes bfloat16"
        assert x.shape[1] == self._in and y.shape == (len(x), self._out), "the kernel steps over whole rows"
        assert x.stride(1) == y.stride(1) == 1, "the kernel steps over rows, not over columns"
        parts = torch.get_num_threads()
        kernel = _MATRICES if matrix_tiles.has_registers() and not self._in % matrix_tiles.STEP else _VECTORS
        return (
            kernel.compiled(torch.bfloat16),
            self._jobs,
            self._laid.nbytes,
            self._laid.data_ptr(),
            self._in,
            self._out,
            x.data_ptr(),
            x.stride(0) * 2,
            len(x),
            y.data_ptr(),
            y.stride(0) * 2,
            self._bias.data_ptr(),
            self._bias_step,
            parts,
            *(self._jobs * part // parts for part in range(parts)),
        )

    def dense(self) -> Tensor:
        """W [out, in], bit for bit: a copy."""
        return self._laid.transpose(1, 2).reshape(-1, self._in)[: self._out]

    def rows(self) -> PackedRows:
        """Rows of W, read where they lie."""
        row, column = torch.arange(self._out), torch.arange(self._in)
        rows = row // WIDTH * WIDTH * self._in + row % WIDTH * 2
        return PackedRows(self._laid.flatten(), rows, column // 2 * 2 * WIDTH + column % 2)


def warm() -> None:
    """Compile, or read from the disk cache; only where the processor can run it."""
    _VECTORS.compiled(torch.bfloat16)
    if matrix_tiles.has_registers():
        _MATRICES.compiled(torch.bfloat16)


@jit
def _work(arguments: int, panel: Panel, leave: Leave, room_bytes: int) -> None:
    a = ints_at(arguments, 13)
    jobs, w_at, width, out, x_at, x_line, rows, y_at, y_line, bias_at, bias_step, parts = a[1:13]
    me = take_number(arguments)
    size = 2 * WIDTH * width
    own = np.zeros((room_bytes + CACHE_LINE) // 8, np.int64)
    room = line_at(own.ctypes.data)
    for turn in range(parts):
        part = (me + turn) % parts
        end = jobs * (part + 1) // parts
        while True:
            job = take_number(arguments + (13 + part) * 8)
            if job >= end:
                break
            w, column = w_at + job * size, job * WIDTH
            bias, y = bias_at + column * bias_step, y_at + 2 * column
            if column + WIDTH <= out:
                panel(w, x_at, x_line, rows, width // 2, bias, y, y_line, room)
                continue
            wide = np.empty((rows, WIDTH), np.uint16)
            panel(w, x_at, x_line, rows, width // 2, bias, wide.ctypes.data, 2 * WIDTH, room)
            for row in range(rows):
                array_at(y + row * y_line, out - column, BFLOAT16)[:] = wide[row, : out - column]
    leave(room)
    own[0] = 0  # so that it is there until now


def _vectors(arguments: int) -> None:
    _work(arguments, pair_tiles.panel, pair_tiles.leave, pair_tiles.ROOM)


def _matrices(arguments: int) -> None:
    _work(arguments, matrix_tiles.panel, matrix_tiles.leave, matrix_tiles.ROOM)


def _float32(arguments: int) -> None:
    raise NotImplementedError("the instruction multiplies bfloat16 only")


_VECTORS, _MATRICES = ParallelKernel(_vectors, _float32), ParallelKernel(_matrices, _float32)

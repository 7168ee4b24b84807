"""Products with a frozen bfloat16 matrix on processors that multiply bfloat16 by pairs (AVX512_BF16).

NOTE: W lies as the instruction reads it, [out / 32, in / 2, 32, 2], so that a job's part of it is one stream; while a
job's tiles run, the next job's part is fetched into the cache. Each sum runs over the inputs in their order, so a
row's result has the same bits whatever rows are beside it.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from llvmlite import binding
from torch import Tensor

from graftwork.kernels.huge_pages import HugePages
from graftwork.kernels.jit import BFLOAT16, array_at, ints_at, jit, take_number
from graftwork.kernels.packed_rows import PackedRows
from graftwork.kernels.pair_tiles import ROWS, WIDTH, tile
from graftwork.kernels.parallel import Call, ParallelKernel, launch

_LINE = 64  # bytes of a cache line


@cache
def has_instruction() -> bool:
    """Whether the processor has it and nothing better: where there are matrix registers (AMX) oneDNN uses them."""
    features = binding.get_host_cpu_features()
    return bool(features.get("avx512bf16")) and not features.get("amx-bf16")


def can_pair(weight: Tensor) -> bool:
    """Whether `PairMatrix` takes this weight on this machine."""
    return (
        weight.dtype == torch.bfloat16 and weight.device.type == "cpu" and not weight.shape[1] % 2 and has_instruction()
    )


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
        return (
            _KERNEL.compiled(torch.bfloat16),
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
    _KERNEL.compiled(torch.bfloat16)


@jit
def _work(arguments: int) -> None:
    a = ints_at(arguments, 13)
    jobs, w_at, width, out, x_at, x_line, rows, y_at, y_line, bias_at, bias_step, parts = a[1:13]
    tiles = (rows + ROWS - 1) // ROWS
    me = take_number(arguments)
    size = 2 * WIDTH * width
    scratch = np.empty(ROWS * WIDTH, np.uint16)
    for turn in range(parts):
        part = (me + turn) % parts
        end = jobs * (part + 1) // parts
        while True:
            job = take_number(arguments + (13 + part) * 8)
            if job >= end:
                break
            w = w_at + job * size
            column = job * WIDTH
            bias = bias_at + column * bias_step
            whole = column + WIDTH <= out
            row = 0
            for number in range(tiles):
                count = (rows - row) // (tiles - number)
                x = x_at + row * x_line
                y = y_at + row * y_line + 2 * column
                fetch, other = w, 0
                if tiles == 1:
                    fetch, other = w + size, _LINE
                elif number < 2:
                    fetch = w + size + number * _LINE
                if whole:
                    tile(w, x, x_line, width // 2, fetch, other, bias, y, y_line, count)
                else:
                    tile(w, x, x_line, width // 2, fetch, other, bias, scratch.ctypes.data, 2 * WIDTH, count)
                    for one in range(count):
                        given = scratch[one * WIDTH :]
                        array_at(y + one * y_line, out - column, BFLOAT16)[:] = given[: out - column]
                row += count


def _bfloat16(arguments: int) -> None:
    _work(arguments)


def _float32(arguments: int) -> None:
    raise NotImplementedError("the instruction multiplies bfloat16 only")


_KERNEL = ParallelKernel(_bfloat16, _float32)

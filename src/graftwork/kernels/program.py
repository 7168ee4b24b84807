"""Program: kernels that run one after another in one parallel region, where each would open a region of its own.

NOTE: A decode step is some three hundred kernels of a few microseconds. Opening a region for each, and Python between
them, costs as much again. Here the threads meet at a counter between two kernels: they spin, as long as OpenMP's would
(decision 0017), and then sleep for moments, so that whoever needs the core gets it.
"""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from llvmlite import ir
from numba import types
from numba.core import cgutils

from graftwork.kernels.jit import address, intrinsic, ints_at, jit, take_number
from graftwork.kernels.parallel import Call, Compiled, ParallelKernel, gomp_parallel, team_size_at
from graftwork.kernels.vectors import I64

_SPINS = 2000  # of some 40 ns


class Program:
    """Rounds of the same kernels, such as the layers of a model: made once, run at every step."""

    def __init__(self, rounds: Sequence[Sequence[Call]]) -> None:
        calls = [call for one in rounds for call in one]
        width = max(map(len, calls))
        self._fresh = np.array([_line(call, width) for call in calls]).reshape(len(rounds), -1, width)
        self._lines = self._fresh.copy()

    def run(self, first: Sequence[Call]) -> None:
        """Run it once. Where the calls of the first round differ from last time's, those of all rounds do so alike."""
        width = self._fresh.shape[2]
        now = np.array([_line(call, width) for call in first])
        changed = now != self._fresh[0]
        self._fresh[:, changed] = now[changed]
        np.copyto(self._lines, self._fresh)  # kernels count in them
        block = array("q", (0, self._lines.size // width, address(self._lines), 8 * width, team_size_at(), _nap_at()))
        kernel = _kernel()
        gomp_parallel()(kernel.address, block.buffer_info()[0], torch.get_num_threads(), 0)


def warm() -> None:
    """Compile, or read from the disk cache."""
    _kernel()


def _line(call: Call, width: int) -> list[int]:
    """A kernel's address, then its block as `launch` makes it."""
    kernel, jobs, _, *arguments = call
    return [kernel.address, 0, jobs, *arguments, *[0] * (width - 3 - len(arguments))]


def _nap_at() -> int:
    """Where the C library's usleep lies."""
    return ctypes.cast(ctypes.CDLL(None).usleep, ctypes.c_void_p).value or 0


@jit
def _run(arguments: int) -> None:
    lines, at, size, team_size, nap = ints_at(arguments, 6)[1:]
    team = _call_at(team_size, 0) & 0xFFFFFFFF if team_size else 1
    for number in range(lines):
        line = at + number * size
        _call_at(ints_at(line, 1)[0], line + 8)
        if team > 1:
            _meet(arguments, (number + 1) * team, nap)


@jit
def _meet(counter: int, all_there: int, nap: int) -> None:
    """Count one more thread, and wait until so many were there."""
    take_number(counter)
    spins = 0
    while _seen(counter) < all_there:
        spins += 1
        if spins > _SPINS:
            _call_at(nap, 1)


@intrinsic
def _seen(_context: Any, address: Any) -> Any:
    """The int64 that other threads count up, after a moment; what they wrote before is seen after."""

    def generate(_: Any, builder: Any, __: Any, args: Any) -> Any:
        kind = ir.FunctionType(ir.VoidType(), [])
        builder.call(cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.sse2.pause"), [])
        return builder.load_atomic(builder.inttoptr(args[0], I64.as_pointer()), "acquire", 8)

    return types.int64(types.int64), generate


@intrinsic
def _call_at(_context: Any, function: Any, argument: Any) -> Any:
    """Call the C function at an address with an integer."""

    def generate(_: Any, builder: Any, __: Any, args: Any) -> Any:
        kind = ir.FunctionType(I64, [I64])
        return builder.call(builder.inttoptr(args[0], kind.as_pointer()), [args[1]])

    return types.int64(types.int64, types.int64), generate


def _any(arguments: int) -> None:
    _run(arguments)


def _kernel() -> Compiled:
    return _KERNEL.compiled(torch.bfloat16)


_KERNEL = ParallelKernel(_any, _any)

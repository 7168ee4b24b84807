"""Program: kernels that run one after another in one parallel region, where each would open a region of its own.

NOTE: A decode step is some three hundred kernels of a few microseconds. Opening a region for each, and Python between
them, costs as much again. Here a thread goes on to the next kernel as soon as all jobs of this one are done: it waits
for threads that have a job, never for one that does not get to run. It spins about as long as OpenMP's would (decision
0017) and then sleeps for moments, so that whoever needs the core gets it.
"""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import torch
from llvmlite import ir
from numba import types

from graftwork.kernels.jit import add, address, intrinsic, ints_at, jit, seen
from graftwork.kernels.parallel import Call, Compiled, ParallelKernel, gomp_parallel
from graftwork.kernels.vectors import I64

_SPINS = 2000  # of some 40 ns


class Program:
    """Rounds of the same kernels, such as the layers of a model: made once, run at every step."""

    def __init__(self, rounds: Sequence[Sequence[Call]]) -> None:
        calls = [call for one in rounds for call in one]
        width = 1 + max(map(len, calls))
        self._fresh = np.array([_line(call, width) for call in calls]).reshape(len(rounds), -1, width)
        self._lines = self._fresh.copy()

    def run(self, first: Sequence[Call]) -> None:
        """Run it once. Where the calls of the first round differ from last time's, those of all rounds do so alike."""
        width = self._fresh.shape[2]
        now = np.array([_line(call, width) for call in first])
        changed = now != self._fresh[0]
        self._fresh[:, changed] = now[changed]
        np.copyto(self._lines, self._fresh)  # kernels count in them
        block = array("q", (0, self._lines.size // width, address(self._lines), 8 * width, _nap_at()))
        kernel = _kernel()
        gomp_parallel()(kernel.address, block.buffer_info()[0], torch.get_num_threads(), 0)


def warm() -> None:
    """Compile, or read from the disk cache."""
    _kernel()


def _line(call: Call, width: int) -> list[int]:
    """A kernel's address, how many threads are at it, then its block as `launch` makes it."""
    kernel, jobs, _, *arguments = call
    return [kernel.address, 0, 0, jobs, *arguments, *[0] * (width - 4 - len(arguments))]


@cache
def _nap_at() -> int:
    """Where the C library's usleep lies."""
    return ctypes.cast(ctypes.CDLL(None).usleep, ctypes.c_void_p).value or 0


@jit
def _run(arguments: int) -> None:
    lines, at, size, nap = ints_at(arguments, 5)[1:]
    number = 0
    while number < lines:
        line = at + number * size
        busy = line + 8
        add(busy, 1)
        _call_at(ints_at(line, 1)[0], line + 16)  # returns when all jobs are taken
        add(busy, -1)
        spins = 0
        while seen(busy) > 0:
            spins += 1
            if spins > _SPINS:
                _call_at(nap, 1)
        # Whoever comes late skips what the others have done: this is the first line that may have jobs left.
        number = max(number + 1, seen(arguments))
        ints_at(arguments, 1)[0] = number


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

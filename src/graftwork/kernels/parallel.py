"""Run a compiled kernel on the thread pool that torch already has.

NOTE: Numba's own `prange` brings a second pool. Two OpenMP pools that spin while they wait slow each other;
where no system libgomp is found Numba falls back to one that costs 100 µs a call and ends the process when
two threads call it. So a kernel is a plain C function that takes numbered jobs until none is left, given to
`GOMP_parallel` of torch's OpenMP library: one pool, one policy. Without it the caller does all the jobs.

With other busy processes on the same cores, threads that spin cost torch's matmuls and these kernels up to a
hundredfold: `graftwork.process` bounds their spinning before torch is imported.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numba
import platformdirs
import torch
from numba import types

from graftwork.kernels.jit import OPTIONS

PARALLEL_BYTES = 256 << 10  # less memory to read than this is read sooner than another thread wakes up

Body = Callable[[int], None]  # takes the address of its arguments: next job, jobs, then the kernel's own


@dataclass(frozen=True)
class Compiled:
    """A kernel for one dtype."""

    briefly: Callable[[int], None]  # without letting go of the interpreter, which another thread might then keep
    call: Callable[[int], None]
    address: int
    code: Any  # keeps both alive


class ParallelKernel:
    """One kernel in its two forms, each compiled when first asked for."""

    def __init__(self, bfloat16: Body, float32: Body) -> None:
        self._bodies = {torch.bfloat16: bfloat16, torch.float32: float32}
        self._compiled: dict[torch.dtype, Compiled] = {}

    def compiled(self, dtype: torch.dtype) -> Compiled:
        """The kernel for a dtype.

        Raises:
            KeyError: the CPU kernels know bfloat16 and float32 only.
        """
        if dtype not in self._compiled:
            code = _compile(self._bodies[dtype])
            briefly = ctypes.PYFUNCTYPE(None, ctypes.c_int64)(code.address)
            self._compiled[dtype] = Compiled(briefly, code.ctypes, code.address, code)
        return self._compiled[dtype]


#: What `launch` takes: a kernel, its jobs, the bytes that it reads, its own arguments.
Call = tuple[Any, ...]


def launch(kernel: Compiled, jobs: int, bytes_read: int, *arguments: int) -> None:
    """Do jobs 0 .. jobs - 1 of a kernel, on torch's threads where that pays; returns when all are done."""
    block = array("q", (0, jobs, *arguments))
    if bytes_read < PARALLEL_BYTES:
        kernel.briefly(block.buffer_info()[0])
        return
    # A team of another size than torch's own would end threads, to start them anew at the next call.
    threads = torch.get_num_threads()
    if jobs == 1 or threads == 1:
        kernel.call(block.buffer_info()[0])
    else:
        gomp_parallel()(kernel.address, block.buffer_info()[0], threads, 0)


@cache
def gomp_parallel() -> Callable[[int, int, int, int], None]:
    """`GOMP_parallel(function, data, threads, flags)` of the library that torch has loaded, or a stand-in."""
    for name in ("libgomp.so.1", "libiomp5.so", "libomp.so"):
        try:  # by name, and only if it is in the process already
            function = ctypes.CDLL(name, mode=getattr(os, "RTLD_NOLOAD", 0) | os.RTLD_LAZY).GOMP_parallel
        except (OSError, AttributeError):
            continue
        function.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint)
        function.restype = None
        called: Callable[[int, int, int, int], None] = function
        return called
    return alone


def alone(entry: int, data: int, threads: int, flags: int) -> None:
    """GOMP_parallel's stand-in: the calling thread does everything."""
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(entry)(data)


def _compile(body: Body) -> Any:
    signature = types.void(types.int64)
    try:
        with _disk_cache():
            return numba.cfunc(signature, cache=True, **OPTIONS)(body)
    except RuntimeError:  # nowhere to write a cache
        return numba.cfunc(signature, **OPTIONS)(body)


@contextmanager
def _disk_cache() -> Iterator[None]:
    """Numba's cache in a folder named after our sources: it would not notice a change in a callee's file."""
    sources = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        sources.update(path.read_bytes())
    before = numba.config.CACHE_DIR
    home = Path(before) if before else Path(platformdirs.user_cache_dir("graftwork")) / "numba"
    numba.config.CACHE_DIR = str(home / sources.hexdigest()[:16])
    try:
        yield
    finally:
        numba.config.CACHE_DIR = before

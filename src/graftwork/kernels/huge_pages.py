"""HugePages: memory for weights in pages of 2 MiB, which a processor finds with a five-hundredth of the look-ups.

Weights are read from end to end at every step: in pages of 4 KiB that takes half as long again.
"""

from __future__ import annotations

import contextlib
import mmap

import torch
from torch import Tensor

from graftwork.kernels.vectors import CACHE_LINE

_PAGE = 2 << 20
_CHUNK = 64 << 20  # bytes; what is never used of it takes no memory


class HugePages:
    """Hands memory out, one piece after another; a chunk is freed with the last tensor in it.

    Where the system has no such pages it is memory as any other.
    """

    def __init__(self) -> None:
        self._left = torch.empty(0, dtype=torch.uint8)

    def empty(self, count: int, dtype: torch.dtype) -> Tensor:
        """`count` elements, which hold anything; they begin at a cache line."""
        nbytes = -(-count * dtype.itemsize // CACHE_LINE) * CACHE_LINE
        if nbytes > len(self._left):
            self._left = _mapped(max(nbytes, _CHUNK))
        made, self._left = self._left[:nbytes], self._left[nbytes:]
        return made.view(dtype)[:count]


def _mapped(nbytes: int) -> Tensor:
    chunk = mmap.mmap(-1, nbytes + _PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)  # shared memory seldom has them
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):  # a system built without them
            chunk.madvise(mmap.MADV_HUGEPAGE)
    flat = torch.frombuffer(chunk, dtype=torch.uint8)
    return flat[-flat.data_ptr() % _PAGE :]

"""MemoryNeed: what an engine will take of this machine's memory, known before the base is loaded."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

import torch

from graftwork.engine.kv_cache import kv_page_elements
from graftwork.errors import Refused
from graftwork.models.base import PreparedBase, weight_files
from graftwork.settings import Settings

#: Limits of a container, in bytes or `max`: control groups of version 2 and 1.
_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


@dataclass(frozen=True)
class MemoryNeed:
    """Bytes of the base, of both caches, and of one page of keys and values; memory is taken only as it is written."""

    base: int
    kv_cache: int
    kv_page: int
    adapter_cache: int

    @property
    def total(self) -> int:
        return self.base + self.kv_cache + self.adapter_cache

    def check(self, memory_bytes: int) -> None:
        """Raises Refused when the cache does not hold a page, or all of it is more than `memory_bytes`."""
        if self.kv_page > self.kv_cache:
            raise Refused(
                f"One page of keys and values of this base needs {self.kv_page} bytes, more than kv_cache_bytes "
                f"({self.kv_cache}); raise it."
            )
        if self.total > memory_bytes:
            raise Refused(
                f"{self.total} bytes of memory are needed: {self.base} for the base, {self.kv_cache} for "
                f"kv_cache_bytes, {self.adapter_cache} for adapter_cache_bytes; there are {memory_bytes}. Lower one."
            )


def memory_need(settings: Settings, base: PreparedBase, dtype: torch.dtype) -> MemoryNeed:
    """What an engine with these settings will need; reads nothing but the sizes of the base's files."""
    stored = getattr(torch, base.outline.dtype, torch.float32)
    return MemoryNeed(
        base=sum(file.stat().st_size for file in weight_files(base.folder)) * dtype.itemsize // stored.itemsize,
        kv_cache=settings.kv_cache_bytes,
        kv_page=kv_page_elements(base.outline) * dtype.itemsize,
        adapter_cache=settings.adapter_cache_bytes,
    )


def memory_of_this_machine() -> int:
    """Physical memory in bytes, or the limit of this container where that is less."""
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for file in _LIMITS:
        with contextlib.suppress(OSError, ValueError):
            found.append(int(Path(file).read_text()))
    return min(found)

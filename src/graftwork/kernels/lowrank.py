"""Low-rank products of many adapters in one batch: the types, and the plain torch truth.

NOTE: The words are those of Punica (arXiv 2310.18547) and S-LoRA (arXiv 2311.03285). A segment is a run of
tokens that use one adapter; *shrink* takes x to h = x Aᵀ of width rank, *expand* takes h to the output's
width. Ranks differ between segments; nothing is padded to the largest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor


@dataclass(frozen=True)
class Segment:
    """Tokens [start, stop) of a batch that use the adapter in `slot`; base-only tokens are in no segment."""

    start: int
    stop: int
    slot: int


@dataclass(frozen=True)
class Group:
    """Sites that read one input and write side by side into one output; a site alone has all of it."""

    sites: tuple[int, ...]
    widths: tuple[int, ...]

    @cached_property
    def columns(self) -> tuple[slice, ...]:
        """Each site's part of the output."""
        ends = np.cumsum((0, *self.widths)).tolist()
        return tuple(slice(begin, end) for begin, end in pairwise(ends))

    @cached_property
    def places(self) -> tuple[int, ...]:
        """For a kernel: site, first column and width of each, in one row."""
        each = zip(self.sites, self.columns, self.widths, strict=True)
        return tuple(number for site, columns, width in each for number in (site, columns.start, width))


@dataclass(frozen=True)
class LowRankSlots:
    """Where each resident adapter's matrices lie in the pool, in elements of it.

    For slot s and site i, with r = rank[s, i]: A is `pool[a : a + r * in]` as [r, in] and B transposed is
    `pool[b : b + r * out]` as [r, out], with the adapter's scale folded in. Rank 0: nothing at that site.
    """

    rank: npt.NDArray[np.int32]  # [slots, sites]
    a_offset: npt.NDArray[np.int64]  # [slots, sites]
    b_offset: npt.NDArray[np.int64]  # [slots, sites]
    pool: Tensor  # [elements], in the serving dtype


class LowRankPlan:
    """One step's segments bound to the slots they read; made once per step, used at every site."""

    def __init__(self, segments: Sequence[Segment], slots: LowRankSlots) -> None:
        self.segments = tuple(segment for segment in segments if segment.stop > segment.start)
        self.slots = slots

    def add(self, x: Tensor, y: Tensor, group: Group) -> bool:
        """Add every segment's low-rank products to y [tokens, out] in place; x is [tokens, in].

        False, and nothing was done, where no segment has anything at these sites.
        """
        if not any(self.slots.rank[segment.slot, list(group.sites)].any() for segment in self.segments):
            return False
        for site, columns in zip(group.sites, group.columns, strict=True):
            lowrank_add(x, y[:, columns], site, self.segments, self.slots)
        return True


def lowrank_add(x: Tensor, y: Tensor, site: int, segments: Sequence[Segment], slots: LowRankSlots) -> None:
    """y[start:stop] += (x[start:stop] Aᵀ) Bᵀ for every segment, in float32, rounded once when added to y.

    x is [tokens, in], y is [tokens, out] and changes in place; tokens of no segment keep their bits.
    """
    for segment in segments:
        rank = int(slots.rank[segment.slot, site])
        if rank == 0 or segment.stop == segment.start:
            continue
        a = matrix(slots.pool, int(slots.a_offset[segment.slot, site]), rank, x.shape[1])  # [rank, in]
        bt = matrix(slots.pool, int(slots.b_offset[segment.slot, site]), rank, y.shape[1])  # [rank, out]
        rows = y[segment.start : segment.stop]
        h = x[segment.start : segment.stop].float() @ a.float().T  # shrink: [segment, rank]
        rows.copy_(torch.addmm(rows.float(), h, bt.float()))  # expand


def matrix(pool: Tensor, offset: int, rows: int, columns: int) -> Tensor:
    """The [rows, columns] matrix that begins at an element of the pool: a view, never a copy."""
    return pool[offset : offset + rows * columns].view(rows, columns)

"""Per-adapter vectors at linear layers: multiply and shift rows in place; the types, and the plain torch truth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from graftwork.kernels.lowrank import Segment

NOTHING = -1


@dataclass(frozen=True)
class AffineSlots:
    """Where each resident adapter's vectors begin in the pool, in elements of it; NOTHING where there is none.

    The vectors are float32, whatever the pool's dtype is.
    """

    scale_in: npt.NDArray[np.int64]  # [slots, sites]
    scale_out: npt.NDArray[np.int64]  # [slots, sites]
    shift: npt.NDArray[np.int64]  # [slots, sites]
    any: npt.NDArray[np.bool_]  # [slots]: whether the adapter has any vector at all
    pool: Tensor  # [elements], in the serving dtype


class AffinePlan:
    """One step's segments bound to their vectors; made once per step, used at every site."""

    def __init__(self, segments: Sequence[Segment], slots: AffineSlots) -> None:
        used = np.fromiter((segment.slot for segment in segments), np.int64, len(segments))
        self.slots = slots
        self.segments = tuple(segments)
        self.scale_in, self.scale_out, self.shift = (
            table[used] for table in (slots.scale_in, slots.scale_out, slots.shift)
        )  # [segments, sites]
        self.before: list[bool] = (self.scale_in.max(axis=0, initial=NOTHING) > NOTHING).tolist()  # [sites]
        outputs = np.maximum(self.scale_out, self.shift).max(axis=0, initial=NOTHING)
        self.after: list[bool] = (outputs > NOTHING).tolist()  # [sites]

    def scaled_rows(self, site: int) -> Tensor:
        """The tokens [n] int64 whose input is scaled at a site."""
        chosen = [one for one, scale in zip(self.segments, self.scale_in[:, site], strict=True) if scale != NOTHING]
        return torch.cat([torch.arange(one.start, one.stop) for one in chosen])

    def scale_inputs(self, x: Tensor, site: int) -> Tensor:
        """x [tokens, in] with the rows of segments that scale it multiplied: a copy."""
        scaled = x.clone(memory_format=torch.contiguous_format)
        self._apply(scaled, self.scale_in[:, site], None)
        return scaled

    def change_outputs(self, y: Tensor, site: int) -> None:
        """Scale, then shift y [tokens, out] in place, in float32, rounded once."""
        self._apply(y, self.scale_out[:, site], self.shift[:, site])

    def _apply(self, rows: Tensor, scale: npt.NDArray[np.int64], shift: npt.NDArray[np.int64] | None) -> None:
        affine(rows, self.segments, self.slots.pool, scale, shift)


def affine(
    rows: Tensor,
    segments: Sequence[Segment],
    pool: Tensor,
    scale: npt.NDArray[np.int64],
    shift: npt.NDArray[np.int64] | None,
) -> None:
    """rows = rows * scale + shift for those of each segment, in float32; `scale` and `shift` are offsets [segments]."""
    for number, segment in enumerate(segments):
        s, b = int(scale[number]), NOTHING if shift is None else int(shift[number])
        if s == NOTHING and b == NOTHING:
            continue
        mine = rows[segment.start : segment.stop]
        wide = mine.float()
        if s != NOTHING:
            wide = wide * vector(pool, s, rows.shape[1])
        if b != NOTHING:
            wide = wide + vector(pool, b, rows.shape[1])
        mine.copy_(wide)


def vector(pool: Tensor, offset: int, width: int) -> Tensor:
    """The float32 vector [width] that begins at an element of the pool: a view, never a copy."""
    elements = width * 4 // pool.element_size()
    return pool[offset : offset + elements].view(torch.float32)

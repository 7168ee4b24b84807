"""ServingForm: an adapter's tensors in the engine's dtype and order, ready to be copied into pages."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class LowRankSlice:
    """The low-rank part of one linear site: `y += (x @ a.T) @ b`, with the scale already in `b`."""

    site: int
    a: torch.Tensor  # [rank, in_features]
    b: torch.Tensor  # [rank, out_features]

    @property
    def rank(self) -> int:
        return self.a.shape[0]


@dataclass(frozen=True)
class ServingForm:
    """All slices of one adapter version, in site order."""

    slices: tuple[LowRankSlice, ...]

"""VeraPart: one layer's use of the random matrices that all layers of an adapter share."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from graftwork.adapters.serving_form import Part, Weights


@dataclass(frozen=True)
class VeraPart(Part):
    """At `linear`: y += after ∘ B (between ∘ (A x)), with as many columns of A and rows of B as the layer has."""

    a: Weights  # [rank, widest in], one for all layers
    between: Weights  # vector [rank]
    b: Weights  # [widest out, rank], one for all layers
    after: Weights  # vector [out]

    def act(self, x: Tensor, y: Tensor, first: int) -> None:
        width_in, width_out = x.shape[1], y.shape[1]
        narrow = torch.cat([x @ rows[:, :width_in].T for rows in self.a.chunks], dim=1) * self.between.vector()
        begins = range(0, width_out, len(self.b.chunks[0]))  # chunks are equally long, all but the last
        chunks = [rows[: width_out - begin] for begin, rows in zip(begins, self.b.chunks, strict=False)]
        y += torch.cat([narrow @ rows.T for rows in chunks], dim=1) * self.after.vector()

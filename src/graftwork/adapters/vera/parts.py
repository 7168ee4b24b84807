"""VeraPart: one layer's use of the random matrices that all layers of an adapter share."""

from __future__ import annotations

from dataclasses import dataclass

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
        narrow = (x @ self.a.matrix[:, :width_in].T) * self.between.vector()
        y += (narrow @ self.b.matrix[:width_out].T) * self.after.vector()

"""Deltas of linear layers that are more than a low-rank slice, and the choice between the forms that a delta may take.

A low-rank slice is one kernel call for all rows of a step, made for ranks that are small. A larger product is a
`LowRankPart`, two plain matmuls; a delta that is smaller when written out is a `DensePart`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from graftwork.adapters.outline import LinearSite
from graftwork.adapters.serving_form import LowRankSlice, Part, ServingForm, Site, Weights

#: Elements of the larger half up to which a product is a slice.
SLICE_ELEMENTS = 1 << 16

Delta = LowRankSlice | Part


@dataclass(frozen=True)
class DensePart(Part):
    """At `linear`: y += D x."""

    delta: Weights  # [out, in]

    def act(self, x: Tensor, y: Tensor, first: int) -> None:
        y += self.delta.project(x)


@dataclass(frozen=True)
class LowRankPart(Part):
    """At `linear`: y += B A x."""

    a: Weights  # [rank, in]
    b: Weights  # [out, rank]

    def act(self, x: Tensor, y: Tensor, first: int) -> None:
        y += self.b.project(self.a.project(x))


@dataclass(frozen=True)
class KroneckerPart(Part):
    """At `linear`: y += (L ⊗ R) x, without ever writing the product out."""

    left: Weights  # [out / k, in / n]
    right: Weights  # [k, n]

    def act(self, x: Tensor, y: Tensor, first: int) -> None:
        left, right = self.left.matrix, self.right.matrix
        grid = x.reshape(len(x), left.shape[1], right.shape[1])
        y += (left @ (grid @ right.T)).flatten(1)  # [tokens, out / k, k]


def low_rank_is_smaller(rank: int, site: LinearSite) -> bool:
    """Whether the two halves of a product of this rank are smaller than the product."""
    return rank * (site.in_features + site.out_features) < site.in_features * site.out_features


def low_rank(index: int, a: Tensor, b: Tensor, dtype: torch.dtype) -> Delta:
    """b a of one linear site, from float32 a [rank, in] and b [out, rank] with the scale in either."""
    a, b = a.to(dtype), b.to(dtype)
    if max(a.numel(), b.numel()) <= SLICE_ELEMENTS:
        return LowRankSlice(index, a.contiguous(), b.T.contiguous())
    return LowRankPart(Site("linear", index), Weights.of(a), Weights.of(b))


def dense(index: int, delta: Tensor, dtype: torch.dtype) -> Delta:
    """A delta [out, in] of one linear site as it is, from float32."""
    return DensePart(Site("linear", index), Weights.of(delta.to(dtype)))


def form_of(deltas: list[Delta]) -> ServingForm:
    """Deltas of different sites as one serving form."""
    return ServingForm(
        slices=tuple(delta for delta in deltas if isinstance(delta, LowRankSlice)),
        parts=tuple(delta for delta in deltas if isinstance(delta, Part)),
    )

"""Parts that replace whole matrices of the base, or rows of its vocabulary, and low-rank changes of the latter."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from graftwork.adapters.serving_form import Part, Weights


@dataclass(frozen=True)
class EmbedWeights(Part):
    """A whole embedding of the adapter's own, perhaps with more rows than the base's."""

    rows: Weights  # [tokens, hidden], times the embedding's scale

    def act(self, x: Tensor, y: Tensor, first: int) -> None:
        y.copy_(self.rows.gather(x))


@dataclass(frozen=True)
class EmbedRows(Part):
    """Other embeddings for some tokens. Trainable tokens, https://huggingface.co/docs/peft/package_reference/trainable_tokens"""

    ids: Weights  # [1, n] int64, ascending
    rows: Weights  # [n, hidden], times the embedding's scale

    def act(self, x: Tensor, y: Tensor, first: int) -> None:
        ids = self.ids.vector()
        place = torch.searchsorted(ids, x).clamp_(max=len(ids) - 1)
        mine = (ids[place] == x).nonzero()[:, 0]
        if len(mine):
            y[mine] = self.rows.gather(place[mine])


@dataclass(frozen=True)
class EmbedLowRank(Part):
    """LoRA on the embedding: y = y * gain + (A[:, ids])ᵀ Bᵀ, with scales folded into B; `gain` is DoRA's."""

    a: Weights  # [tokens, rank]
    b: Weights  # [rank, hidden]
    gain: Weights | None = None  # [1, hidden] float32

    def act(self, x: Tensor, y: Tensor, first: int) -> None:
        wide = y.float() if self.gain is None else y.float() * self.gain.vector()
        y.copy_(wide + self.a.gather(x).float() @ self.b.matrix.float())


@dataclass(frozen=True)
class HeadWeights(Part):
    """A whole output head of the adapter's own, perhaps with more rows than the base's."""

    rows: Weights  # [tokens, hidden]
    bias: Weights | None = None  # [1, tokens]

    @property
    def width(self) -> int:
        return self.rows.shape[0]

    def act(self, x: Tensor, y: Tensor, first: int) -> None:
        y[:, : self.width] = self.rows.project(x)
        y[:, self.width :] = float("-inf")
        if self.bias is not None:
            y[:, : self.width] += self.bias.vector()


@dataclass(frozen=True)
class HeadRows(Part):
    """Other output rows for some tokens: the other side of `EmbedRows` where embedding and head are tied."""

    ids: Weights  # [1, n] int64
    rows: Weights  # [n, hidden]

    def act(self, x: Tensor, y: Tensor, first: int) -> None:
        y[:, self.ids.vector()] = self.rows.project(x)


@dataclass(frozen=True)
class HeadLowRank(Part):
    """LoRA on the output head: y = y * gain + (x Aᵀ) Bᵀ + shift, with scales folded into B; `gain` is DoRA's."""

    a: Weights  # [rank, hidden]
    b: Weights  # [tokens, rank]
    gain: Weights | None = None  # [1, tokens] float32
    shift: Weights | None = None  # [1, tokens] float32

    def act(self, x: Tensor, y: Tensor, first: int) -> None:
        known = y[:, : self.b.shape[0]]
        if self.gain is not None:
            known.copy_(known.float() * self.gain.vector())
        known += self.b.project(self.a.project(x))
        if self.shift is not None:
            known.copy_(known.float() + self.shift.vector())


@dataclass(frozen=True)
class Score(Part):
    """A classification head on the final hidden state: class logits x Wᵀ + bias."""

    rows: Weights  # [classes, hidden]
    bias: Weights | None = None  # [1, classes]

    @property
    def width(self) -> int:
        return self.rows.shape[0]

    def act(self, x: Tensor, y: Tensor, first: int) -> None:
        y += self.rows.project(x)
        if self.bias is not None:
            y += self.bias.vector()


@dataclass(frozen=True)
class LinearWeights(Part):
    """A whole linear layer of the adapter's own in place of the base's."""

    rows: Weights  # [out, in]
    bias: Weights | None = None  # [1, out]

    def act(self, x: Tensor, y: Tensor, first: int) -> None:
        y.copy_(self.rows.project(x))
        if self.bias is not None:
            y += self.bias.vector()

"""The small operations between the matmuls of a Llama layer, each as one: the plain torch truth.

In float32 throughout and rounded once, where transformers rounds after every operation.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from graftwork.kernels.attention import AttentionRows, write_kv


@dataclass(frozen=True)
class Heads:
    """How the columns of a fused q/k/v product divide: query heads, then key heads, then value heads."""

    queries: int
    keys: int
    head_dim: int

    def split(self, qkv: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """q [tokens, queries, head_dim], k and v [tokens, keys, head_dim]: views of qkv [tokens, all of them]."""
        heads = qkv.view(len(qkv), -1, self.head_dim)
        return heads.split((self.queries, self.keys, self.keys), dim=1)  # type: ignore[no-any-return,no-untyped-call]


@dataclass(frozen=True)
class Rotary:
    """Rotary position embeddings (RoFormer, https://arxiv.org/abs/2104.09864) in the halves' order of Hugging Face.

    With `q_norm` and `k_norm` each head is normalised first (Qwen3).
    """

    table: Tensor  # [positions, head_dim] float32: head_dim / 2 cosines, then as many sines
    q_norm: Tensor | None = None  # [head_dim] float32
    k_norm: Tensor | None = None  # [head_dim] float32
    eps: float = 0.0


def add_norm(residual: Tensor, delta: Tensor | None, weight: Tensor, eps: float) -> Tensor:
    """residual += delta, in place and rounded; then its RMS norm (https://arxiv.org/abs/1910.07467) times `weight`.

    residual and delta are [tokens, hidden], weight is [hidden] float32; so is the result, in residual's dtype.
    """
    if delta is not None:
        residual += delta
    return _norm(residual.float(), weight, eps).to(residual.dtype)


def rotate(qkv: Tensor, heads: Heads, rotary: Rotary, positions: Tensor) -> None:
    """Turn the queries and keys of qkv [tokens, ...] to their places, in place; positions is [tokens] int64."""
    q, k, _ = heads.split(qkv)
    cos, sin = rotary.table[positions][:, None].chunk(2, dim=-1)  # [tokens, 1, head_dim / 2]
    for x, weight in ((q, rotary.q_norm), (k, rotary.k_norm)):
        wide = x.float()
        if weight is not None:
            wide = _norm(wide, weight, rotary.eps)
        first, second = wide.chunk(2, dim=-1)
        x.copy_(torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1))


def rotate_and_write(
    qkv: Tensor, heads: Heads, rotary: Rotary, positions: Tensor, keys: Tensor, values: Tensor, layer: int,
    rows: AttentionRows,
) -> None:  # fmt: skip
    """`rotate`, then put keys and values into their pages of one layer."""
    rotate(qkv, heads, rotary, positions)
    _, k, v = heads.split(qkv)
    write_kv(k, v, keys, values, layer, rows)


def gated(gate_up: Tensor) -> Tensor:
    """silu(gate) * up (SwiGLU, https://arxiv.org/abs/2002.05202): [tokens, 2 n], gate first, to [tokens, n]."""
    gate, up = gate_up.float().chunk(2, dim=-1)
    return (F.silu(gate) * up).to(gate_up.dtype)


def _norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight

"""PackedLinear: a frozen weight laid out once for the matmul library."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from graftwork.kernels.huge_pages import HugePages
from graftwork.kernels.packed_rows import PackedRows
from graftwork.kernels.pairs_cpu import PairMatrix, can_pair

OPERATORS = ("_reorder_linear_weight", "_linear_pointwise")


def can_pack(weight: Tensor) -> bool:
    """Whether this torch has oneDNN's packed layout for this weight; it lies behind private operators."""
    ops = torch.ops.mkldnn
    return (
        weight.device.type == "cpu"
        and torch._C._has_mkldnn
        and all(hasattr(ops, name) for name in OPERATORS)
        and (weight.dtype == torch.float32 or (weight.dtype == torch.bfloat16 and _has_bf16()))
    )


class PackedLinear:
    """y = x Wᵀ + bias for one frozen W [out, in].

    Plain `F.linear` re-lays W at every call, which costs half the time at few rows; here a layout is made once: our
    own where the processor multiplies bfloat16 by pairs, else oneDNN's. The caller may free its plain copy when
    `packed` is true: `dense` gives the same bits back.
    """

    def __init__(
        self, weight: Tensor, bias: Tensor | None = None, *, pack: bool = True, memory: HugePages | None = None
    ) -> None:
        self.out_features, self.in_features = weight.shape
        self.dtype = weight.dtype
        self.bias = bias
        self.pairs = PairMatrix(weight, bias, memory or HugePages()) if pack and can_pair(weight) else None
        self.packed = self.pairs is not None or (pack and can_pack(weight))
        self._weight = weight.detach()
        if self.pairs is not None:
            self._weight = weight.new_empty(0)
        elif self.packed:
            self._weight = torch.ops.mkldnn._reorder_linear_weight(self._weight, None)

    def __call__(self, x: Tensor) -> Tensor:
        """x [tokens, in] to [tokens, out]."""
        if self.pairs is not None:
            return self.pairs(x)
        if self.packed:
            y: Tensor = torch.ops.mkldnn._linear_pointwise(x, self._weight, self.bias, "none", [], "")
            return y
        return F.linear(x, self._weight, self.bias)

    def dense(self) -> Tensor:
        """W [out, in], bit for bit as it was given: for hashes, not for the request path."""
        if self.pairs is not None:
            return self.pairs.dense()
        return self._weight.to_dense() if self.packed else self._weight

    def rows(self) -> PackedRows | None:
        """Rows of W read out of its packed form, for an embedding tied to this head; None where that cannot be."""
        if self.pairs is not None:
            return self.pairs.rows()
        return PackedRows.of(self._weight) if self.packed else None

    @property
    def nbytes(self) -> int:
        """Bytes of W and bias, without the library's padding."""
        bias = 0 if self.bias is None else self.bias.numel()
        return (self.out_features * self.in_features + bias) * self.dtype.itemsize


def _has_bf16() -> bool:
    check = getattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", None)
    return check is not None and bool(check())

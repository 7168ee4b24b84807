"""Sites: where an adapter acts. A linear site runs W once for all rows, then the adapters' part."""

from __future__ import annotations

import torch
from torch import Tensor

from graftwork.kernels.linear import PackedLinear
from graftwork.kernels.select import Kernels
from graftwork.models.forward_batch import ForwardBatch


class BatchHolder:
    """The batch of the forward pass that is running; owned by one model and set around its `forward` only.

    transformers' modules take no such argument, so the sites read it here; nothing else may.
    """

    def __init__(self) -> None:
        self._batch: ForwardBatch | None = None

    @property
    def batch(self) -> ForwardBatch:
        assert self._batch is not None, "a site runs only inside forward"
        return self._batch

    def __enter__(self) -> BatchHolder:
        return self

    def __exit__(self, *exc: object) -> None:
        self._batch = None

    def holding(self, batch: ForwardBatch) -> BatchHolder:
        assert self._batch is None, "one forward pass at a time"
        self._batch = batch
        return self


class SiteLinear(torch.nn.Module):
    """Takes the place of a linear layer: y = W x (+ bias) for all rows at once, then each adapter's low-rank part.

    `site` is the layer's index in the outline, or None where no adapter acts (the output head). Afterwards the plain
    weight is gone; `dense()` gives it back from its packed form.
    """

    def __init__(self, linear: torch.nn.Linear, site: int | None, kernels: Kernels, holder: BatchHolder) -> None:
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        bias = None if linear.bias is None else linear.bias.data
        self.packed: PackedLinear = kernels.pack_linear(linear.weight.data, bias)
        self.site = site
        self._kernels = kernels
        self._holder = holder

    def forward(self, x: Tensor) -> Tensor:
        flat = x.reshape(-1, self.in_features)
        y = self.packed(flat)
        if self.site is not None and (plan := self._holder.batch.plan) is not None:
            self._kernels.lowrank_add(flat, y, self.site, plan)
        return y.view(*x.shape[:-1], self.out_features)

    def dense(self) -> Tensor:
        """W, bit for bit: [out_features, in_features]."""
        return self.packed.dense()

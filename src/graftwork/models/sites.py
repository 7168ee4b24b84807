"""Sites: where an adapter acts. A site runs the base once for all rows, then what the step's adapters do there."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from graftwork.adapters.serving_form import Place, Site
from graftwork.errors import Refused
from graftwork.kernels.linear import PackedLinear
from graftwork.kernels.lowrank import Group
from graftwork.kernels.packed_rows import PackedRows
from graftwork.kernels.select import Kernels
from graftwork.models.adapter_plan import EMBED, HEAD
from graftwork.models.forward_batch import ForwardBatch


class BatchHolder:
    """The batch of the forward pass that is running; owned by one model and set around its `forward` only.

    transformers' modules take no such argument, so the sites read it here; nothing else may.
    """

    def __init__(self) -> None:
        self._batch: ForwardBatch | None = None
        #: What the running layer's block will be added to: [1, tokens, hidden].
        self.residual: Tensor | None = None
        #: The final hidden state of the pass [tokens, hidden], where the batch asks for it.
        self.hidden: Tensor | None = None

    @property
    def batch(self) -> ForwardBatch:
        assert self._batch is not None, "a site runs only inside forward"
        return self._batch

    def __enter__(self) -> BatchHolder:
        return self

    def __exit__(self, *exc: object) -> None:
        self._batch = self.residual = self.hidden = None

    def holding(self, batch: ForwardBatch) -> BatchHolder:
        assert self._batch is None, "one forward pass at a time"
        self._batch = batch
        return self


class SiteLinear(torch.nn.Module):
    """Takes the place of a linear layer: y = W x (+ bias) for all rows at once, with what the adapters do around it.

    `site` is the layer's index in the outline, or None where no adapter can act. Afterwards the plain weight is gone;
    `dense()` gives it back from its packed form.
    """

    def __init__(self, linear: torch.nn.Linear, site: int | None, kernels: Kernels, holder: BatchHolder) -> None:
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        bias = None if linear.bias is None else linear.bias.data
        self.packed: PackedLinear = kernels.pack_linear(linear.weight.data, bias)
        self.site = site
        self._group = None if site is None else Group((site,), (linear.out_features,))
        self._holder = holder

    def forward(self, x: Tensor) -> Tensor:
        flat = x.reshape(-1, self.in_features)
        batch = self._holder.batch
        if self._group is None:
            return self.packed(flat).view(*x.shape[:-1], self.out_features)
        if len(flat) != batch.num_tokens:  # then an adapter would act on other rows than its own
            raise Refused("The base runs a linear layer on other rows than the batch's tokens, so it cannot be served.")
        y = self.packed(flat) if batch.plan is None else batch.plan.linear(flat, self._group, self.packed)
        return y.view(*x.shape[:-1], self.out_features)

    def dense(self) -> Tensor:
        """W, bit for bit: [out_features, in_features]."""
        return self.packed.dense()


class SiteHead(SiteLinear):
    """The output head, run where logits are wanted; an adapter with more tokens than the base widens them."""

    def __init__(self, linear: torch.nn.Linear, kernels: Kernels, holder: BatchHolder) -> None:
        super().__init__(linear, None, kernels, holder)

    def forward(self, x: Tensor) -> Tensor:
        flat = x.reshape(-1, self.in_features)
        y = self.packed(flat)
        plan = self._holder.batch.plan
        if plan is not None:
            y = plan.widened(y)
            plan.act(HEAD, flat, y)
        return y.view(*x.shape[:-1], y.shape[1])


class TiedEmbedding(torch.nn.Module):
    """Looks tokens up in the packed head that the embedding is tied to, so that W is in memory once."""

    def __init__(self, head: SiteLinear, rows: PackedRows) -> None:
        super().__init__()
        self._dense, self._rows = head.dense, rows

    @property
    def weight(self) -> Tensor:
        """W [vocab, hidden], bit for bit: a copy, not for the request path."""
        return self._dense()

    def forward(self, ids: Tensor) -> Tensor:
        return self._rows.gather(ids.reshape(-1)).view(*ids.shape, -1)


class SiteEmbedding(torch.nn.Module):
    """Takes the place of the token embedding; ids beyond its rows are the adapters' own and are filled in by them."""

    def __init__(self, embedding: torch.nn.Module, vocab_size: int, holder: BatchHolder) -> None:
        super().__init__()
        self.inner = embedding
        self._vocab_size = vocab_size
        self._holder = holder

    @property
    def weight(self) -> Tensor:
        weight: Tensor = self.inner.weight  # type: ignore[assignment]
        return weight

    def forward(self, ids: Tensor) -> Tensor:
        plan = self._holder.batch.plan
        if plan is None:
            plain: Tensor = self.inner(ids)
            return plain
        y: Tensor = self.inner(ids.clamp(max=self._vocab_size - 1))
        plan.act(EMBED, ids.view(-1), y.view(-1, y.shape[-1]))
        return y


def watch_block(attention: torch.nn.Module, mlp: torch.nn.Module, norms: tuple[torch.nn.Module, torch.nn.Module],
                layer: int, holder: BatchHolder) -> None:  # fmt: skip
    """Let adapters change what a decoder layer's two blocks add to the residual stream, which their norms take in."""
    places: tuple[Place, Place] = ("attention", "mlp")
    for place, block, norm in zip(places, (attention, mlp), norms, strict=True):
        _watch(block, norm, Site(place, layer), holder)


def _watch(block: torch.nn.Module, norm: torch.nn.Module, site: Site, holder: BatchHolder) -> None:
    def remember(_module: torch.nn.Module, inputs: tuple[Any, ...]) -> None:
        if holder.batch.plan is not None:
            holder.residual = inputs[0]

    def change(_module: torch.nn.Module, _inputs: tuple[Any, ...], output: Any) -> None:
        plan = holder.batch.plan
        if plan is not None:
            y = output[0] if isinstance(output, tuple) else output
            assert holder.residual is not None, "the norm runs before its block"
            plan.act(site, holder.residual.view(-1, y.shape[-1]), y.view(-1, y.shape[-1]))

    norm.register_forward_pre_hook(remember)
    block.register_forward_hook(change)

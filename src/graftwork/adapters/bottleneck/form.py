"""The parts of a bottleneck adapter: its matrices in the serving dtype, one part per module."""

from __future__ import annotations

import numpy as np
import torch

from graftwork.adapters.bottleneck.layer import BottleneckPart, NicePart
from graftwork.adapters.bottleneck.layout import Layout, Module
from graftwork.adapters.bottleneck.matrices import Array, Matrices
from graftwork.adapters.folder import StoredTensor
from graftwork.adapters.kinds import BaseWeights
from graftwork.adapters.outline import Outline
from graftwork.adapters.serving_form import Part, Site, Weights
from graftwork.adapters.stored_weights import tensor_of
from graftwork.adapters.vocabulary import HeadWeights
from graftwork.errors import Refused


def module_parts(layout: Layout, matrices: Matrices, dtype: torch.dtype) -> list[Part]:
    """All modules of an adapter that the account found no problem with."""
    parts: list[Part] = [_module(layout, module, matrices, dtype) for module in layout.modules]
    if layout.config.invertible is not None:
        parts.append(_invertible(layout, matrices, dtype))
    return parts


def head_parts(head: StoredTensor, dtype: torch.dtype, outline: Outline, base: BaseWeights) -> list[Part]:
    """Nothing where it is the base's own, which the library saves with an adapter that did not train it.

    Raises:
        Refused: when it differs from a base's that is its embedding as well.
    """
    assert outline.head is not None, "the account refuses a head that the base has no place for"
    weight = tensor_of(head, dtype)
    if torch.equal(weight, base.weight(outline.head.path).to("cpu")):
        return []
    if outline.tied:
        raise Refused(
            f"{head.name}: differs from the base's, which is its embedding as well; the library would replace both. "
            "If it was not trained, save with with_head=False."
        )
    return [HeadWeights(Site("head"), Weights.of(weight))]


def _module(layout: Layout, module: Module, matrices: Matrices, dtype: torch.dtype) -> BottleneckPart:
    config = layout.config

    def norm(name: str, half: str, there: bool) -> Weights | None:
        return _weights(matrices.value(f"{module.path}.{name}.{half}"), dtype) if there else None

    (down, down_bias), (up, up_bias) = matrices.down(module), matrices.up(module)
    return BottleneckPart(
        site=Site(module.place, module.layer),
        down=_weights(down, dtype),
        down_bias=_weights(down_bias, dtype),
        up=_weights(up, dtype),
        up_bias=_weights(up_bias, dtype),
        non_linearity=config.non_linearity,
        sums=config.sums,
        before_weight=norm("adapter_down.0", "weight", config.norm_before),
        before_bias=norm("adapter_down.0", "bias", config.norm_before),
        after_weight=norm("adapter_norm_after", "weight", config.norm_after),
        after_bias=norm("adapter_norm_after", "bias", config.norm_after),
    )


def _invertible(layout: Layout, matrices: Matrices, dtype: torch.dtype) -> NicePart:
    def weights(name: str) -> Weights:
        return _weights(matrices.value(f"{layout.invertible}.{name}"), dtype)

    return NicePart(
        site=Site("embed"),
        f_down=weights("F.0.weight"),
        f_down_bias=weights("F.0.bias"),
        f_up=weights("F.2.weight"),
        f_up_bias=weights("F.2.bias"),
        g_down=weights("G.0.weight"),
        g_down_bias=weights("G.0.bias"),
        g_up=weights("G.2.weight"),
        g_up_bias=weights("G.2.bias"),
        non_linearity=layout.config.non_linearity,
    )


def _weights(values: Array, dtype: torch.dtype) -> Weights:
    return Weights.of(torch.from_numpy(np.ascontiguousarray(values)).to(dtype))

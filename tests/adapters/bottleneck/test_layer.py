"""The parts in torch: the formula; the non-linearities."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from transformers.activations import get_activation

from graftwork.adapters.bottleneck.config import Sums
from graftwork.adapters.bottleneck.layer import NON_LINEARITIES, BottleneckPart
from graftwork.adapters.serving_form import Site, Weights


def drawn(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.float64)


def part(sums: Sums) -> BottleneckPart:
    down, down_bias, up, up_bias = (Weights.of(drawn(*shape)) for shape in ((6, 16), (6,), (16, 6), (16,)))
    return BottleneckPart(Site("mlp"), down, down_bias, up, up_bias, "tanh", sums)


@pytest.mark.parametrize("residual", [-1, 0, 1])
def test_the_formula(residual: int) -> None:
    whole = part(Sums("residual", "sum", True, residual))
    whole = replace(whole, after_weight=Weights.of(drawn(16)), after_bias=Weights.of(drawn(16) + 1))
    x, y = drawn(3, 16), drawn(4, 16)[:3]
    got = y.clone()
    whole.act(x, got, 0)
    inner = torch.tanh(x @ drawn(6, 16).T + drawn(6)) @ drawn(16, 6).T + drawn(16) + x + y
    torch.testing.assert_close(got, y + residual * x + F.layer_norm(inner, (16,), drawn(16), drawn(16) + 1))


@pytest.mark.parametrize("name", sorted(set(NON_LINEARITIES) - {"leakyrelu"}))
def test_a_non_linearity_is_what_transformers_calls_so(name: str) -> None:
    x = torch.linspace(-12, 12, 201)
    torch.testing.assert_close(NON_LINEARITIES[name](x), get_activation(name)(x))

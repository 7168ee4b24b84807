"""BottleneckPart and NicePart: what a bottleneck adapter does at blocks and embedding, in torch.

Sequential adapters: Houlsby et al. 2019, https://arxiv.org/abs/1902.00751, and Pfeiffer et al. 2021,
https://arxiv.org/abs/2005.00247. Parallel ones: He et al. 2022, https://arxiv.org/abs/2110.04366. NICE: Dinh et al.
2014, https://arxiv.org/abs/1410.8516. Formulas: `adapters/methods/modeling.py` of adapters 1.3.0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from graftwork.adapters.bottleneck.config import Stream, Sums
from graftwork.adapters.serving_form import Part, Weights


def _gelu_tanh(x: Tensor) -> Tensor:
    return F.gelu(x, approximate="tanh")


def _laplace(x: Tensor) -> Tensor:
    """Of Ma et al. 2022, https://arxiv.org/abs/2209.10655."""
    return 0.5 * (1.0 + torch.erf((x - 0.707107) / (0.282095 * math.sqrt(2.0))))


#: As transformers' `ACT2FN` has them.
NON_LINEARITIES: Mapping[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu_10": lambda x: F.gelu(x).clamp(-10.0, 10.0),
    "gelu_accurate": _gelu_tanh,
    "gelu_fast": _gelu_tanh,
    "gelu_new": _gelu_tanh,
    "gelu_python": F.gelu,
    "gelu_pytorch_tanh": _gelu_tanh,
    "laplace": _laplace,
    "leaky_relu": F.leaky_relu,
    "leakyrelu": F.leaky_relu,
    "linear": lambda x: x,
    "mish": F.mish,
    "quick_gelu": lambda x: x * torch.sigmoid(1.702 * x),
    "relu": F.relu,
    "relu2": lambda x: F.relu(x).square(),
    "relu6": F.relu6,
    "sigmoid": torch.sigmoid,
    "silu": F.silu,
    "swish": F.silu,
    "tanh": torch.tanh,
}


@dataclass(frozen=True)
class BottleneckPart(Part):
    """`y ← keeps_output · y + residual · x + norm_after(up f(down norm_before(reads)) + within)`, with `sums`' words.

    x and y are the residual stream and the block's output, of which the model then makes x + y.
    """

    down: Weights  # [width, hidden]
    down_bias: Weights
    up: Weights  # [hidden, width], with the scaling
    up_bias: Weights
    non_linearity: str
    sums: Sums
    before_weight: Weights | None = None
    before_bias: Weights | None = None
    after_weight: Weights | None = None
    after_bias: Weights | None = None

    def act(self, x: Tensor, y: Tensor, first: int) -> None:
        sums = self.sums
        h = _normed(_stream(sums.reads, x, y), self.before_weight, self.before_bias)
        h = _net(h, self.down, self.down_bias, self.non_linearity, self.up, self.up_bias)
        if sums.within is not None:
            h = h + _stream(sums.within, x, y)
        h = _normed(h, self.after_weight, self.after_bias)
        if sums.keeps_output:
            h = h + y
        y.copy_(h + sums.residual * x if sums.residual else h)


@dataclass(frozen=True)
class NicePart(Part):
    """An additive coupling of the two halves of an embedding: `a ← a + F(b)`, then `b ← b + G(a)`."""

    f_down: Weights  # [width, len b]
    f_down_bias: Weights
    f_up: Weights  # [len a, width]
    f_up_bias: Weights
    g_down: Weights  # [width, len a]
    g_down_bias: Weights
    g_up: Weights  # [len b, width]
    g_up_bias: Weights
    non_linearity: str

    def act(self, x: Tensor, y: Tensor, first: int) -> None:
        a, b = y[:, : y.shape[1] // 2], y[:, y.shape[1] // 2 :]
        a += _net(b, self.f_down, self.f_down_bias, self.non_linearity, self.f_up, self.f_up_bias)
        b += _net(a, self.g_down, self.g_down_bias, self.non_linearity, self.g_up, self.g_up_bias)


def _net(h: Tensor, down: Weights, down_bias: Weights, name: str, up: Weights, up_bias: Weights) -> Tensor:
    h = NON_LINEARITIES[name](down.project(h) + down_bias.vector())
    return up.project(h) + up_bias.vector()


def _normed(h: Tensor, weight: Weights | None, bias: Weights | None) -> Tensor:
    if weight is None or bias is None:
        return h
    return F.layer_norm(h, h.shape[-1:], weight.vector(), bias.vector())  # epsilon 1e-5: torch's and the library's


def _stream(name: Stream, x: Tensor, y: Tensor) -> Tensor:
    return x + y if name == "sum" else x if name == "residual" else y

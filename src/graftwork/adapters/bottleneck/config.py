"""BottleneckConfig: the fields of an `adapters` config that change the answer, checked.

Fields: https://docs.adapterhub.ml/classes/adapter_config.html#adapters.BnConfig
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

#: transformers' activations without weights of their own, and the library's `leakyrelu`.
NON_LINEARITIES = frozenset({
    "gelu", "gelu_10", "gelu_accurate", "gelu_fast", "gelu_new", "gelu_python", "gelu_pytorch_tanh", "laplace",
    "leaky_relu", "leakyrelu", "linear", "mish", "quick_gelu", "relu", "relu2", "relu6", "sigmoid", "silu", "swish",
    "tanh",
})  # fmt: skip


@dataclass(frozen=True)
class Phm:
    """How Compacter writes a matrix as a sum of Kronecker products (https://arxiv.org/abs/2106.04647)."""

    dim: int
    rank: int | None  # of each factor; None: it is stored whole
    shared: bool  # factors of all layers are the same
    shared_rule: bool
    factorized_rule: bool
    bias: bool


#: The block's output, the residual stream that the block's norm took in, or both together.
Stream = Literal["output", "sum", "residual"]


@dataclass(frozen=True)
class Sums:
    """Where the streams around a block meet its adapter: `BottleneckPart` has the formula."""

    reads: Stream
    within: Stream | None
    keeps_output: bool
    residual: int  # -1, 0 or 1

    @property
    def acts_without_delta(self) -> bool:
        """Whether the block's output changes even where the adapter's own matrices are zero."""
        return self.residual != 0 or not self.keeps_output


@dataclass(frozen=True)
class BottleneckConfig:
    """Checked values of one config."""

    name: str
    attention: bool
    mlp: bool
    parallel: bool
    #: The non-linearity, in transformers' word.
    non_linearity: str
    #: Reduction factor by layer number, or for all others by `default`.
    reduction: Mapping[str, float]
    leave_out: frozenset[int]
    scaling: float | Literal["learned", "channel"]
    #: The residual stream is added before the adapter, and after it.
    sum_before: bool
    sum_after: bool
    #: The adapter's own residual connection takes what it began with, or the sum; it may lie before `norm_after`.
    keeps_sum: bool
    keeps_within: bool
    norm_before: bool
    norm_after: bool
    phm: Phm | None
    #: Reduction factor of the invertible adapter (NICE), if there is one.
    invertible: float | None
    warnings: tuple[str, ...]

    @property
    def sums(self) -> Sums:
        """What the library's `pre_forward`, `forward` and `post_forward` come to in a model without a norm after it.

        There the stream goes on as the adapter leaves it, plus x if `sum_after`; here the model adds x always.
        """
        after = int(self.sum_after) - 1
        if self.parallel:
            return Sums("residual", None, True, after)
        own: Stream = "sum" if self.sum_before and self.keeps_sum else "output"
        reads: Stream = "sum" if self.sum_before else "output"
        if self.keeps_within and self.norm_after:
            return Sums(reads, own, False, after)
        return Sums(reads, None, True, int(own == "sum") + after)

    def width(self, layer: int, hidden_size: int) -> int | None:
        """Features between the two projections of a layer's adapters; None where `reduction` does not say."""
        factor = self.reduction.get(str(layer), self.reduction.get("default"))
        return None if factor is None else max(1, int(hidden_size // factor))

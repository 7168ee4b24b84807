"""ServingForm: an adapter's tensors in the engine's dtype and order, ready to be copied into adapter memory.

What a kind does comes down to three forms. A *low-rank slice* and an *affine* act at linear sites, for all rows of a
step in one kernel call; most kinds need nothing else. A *part* is anything more, in plain torch, one segment at a
time: a kind brings its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, Self

from torch import Tensor

#: Where a part acts; what `x` and `y` are there is told by `Part.act`.
Place = Literal["linear", "head", "embed", "attention", "mlp", "keys", "score"]


@dataclass(frozen=True)
class Site:
    """A place in the model: `index` counts linear layers as the outline does, else decoder layers, else it is 0."""

    place: Place
    index: int = 0


@dataclass(frozen=True)
class Weights:
    """A matrix of a part that is copied into adapter memory, or a vector as one row."""

    matrix: Tensor  # [rows, columns]

    @classmethod
    def of(cls, tensor: Tensor) -> Self:
        """A vector as one row, a matrix as it is, anything else with all but its first dimension as columns."""
        return cls((tensor[None] if tensor.ndim == 1 else tensor.flatten(1)).contiguous())

    @property
    def shape(self) -> tuple[int, int]:
        return self.matrix.shape[0], self.matrix.shape[1]

    def vector(self) -> Tensor:
        """The one row of a vector: [columns]."""
        assert self.shape[0] == 1, "a vector is one row"
        return self.matrix[0]

    def gather(self, rows: Tensor) -> Tensor:
        """Some rows [n, columns], by their numbers [n] int64."""
        return self.matrix[rows]

    def project(self, x: Tensor) -> Tensor:
        """x Mᵀ: [tokens, columns] to [tokens, rows]."""
        return x @ self.matrix.T


@dataclass(frozen=True)
class LowRankSlice:
    """The low-rank part of one linear site: `y += (x @ a.T) @ b`, with the scale already in `b`."""

    site: int
    a: Tensor  # [rank, in_features]
    b: Tensor  # [rank, out_features]

    @property
    def rank(self) -> int:
        return self.a.shape[0]


@dataclass(frozen=True)
class Affine:
    """Vectors at one linear site, in float32: `y = W (x * scale_in) * scale_out + shift`; None is 1, 1 and 0.

    It acts before the low-rank slice of the same site is added.
    """

    site: int
    scale_in: Tensor | None = None  # [in_features]
    scale_out: Tensor | None = None  # [out_features]
    shift: Tensor | None = None  # [out_features]


@dataclass(frozen=True)
class Part:
    """What a kind does at one site in plain torch; its `Weights` fields go to adapter memory, the rest is kept.

    A kind subclasses it in its own folder: a frozen dataclass with fields of type `Weights` and `act`. A `Weights`
    object that several parts of a form share is copied once.
    """

    site: Site

    @property
    def width(self) -> int:
        """Columns of the logits that a part at `head` or `score` gives; 0: as many as the base."""
        return 0

    def act(self, x: Tensor, y: Tensor, first: int) -> None:
        """Change `y` in place, for one segment: tokens of one row, the first at position `first` of it.

        ============ ======================================== ====================================================
        place        x                                        y
        ============ ======================================== ====================================================
        linear       input [tokens, in]                       output [tokens, out]
        head         final hidden state [tokens, hidden]      logits [tokens, vocab or `width`]
        embed        token ids [tokens] int64                 embeddings [tokens, hidden], before any position
        attention    residual stream [tokens, hidden]         the block's output, before it is added to the residual
        mlp          residual stream [tokens, hidden]         the block's output, before it is added to the residual
        keys         keys [tokens, kv_heads, head_dim]        values, the same shape; x changes in place too
        score        final hidden state [tokens, hidden]      class logits [tokens, `width`], zero so far
        ============ ======================================== ====================================================
        """
        raise NotImplementedError

    def weights(self) -> dict[str, Weights]:
        """The fields that are copied into adapter memory, by name."""
        return {field.name: value for field in fields(self) if isinstance(value := getattr(self, field.name), Weights)}

    def placed(self, weights: Mapping[str, Weights]) -> Self:
        """The same part on other copies of its weights."""
        fields_: Mapping[str, Any] = weights
        return replace(self, **fields_)


@dataclass(frozen=True)
class Traits:
    """What a row must know of its adapter before it is scheduled."""

    #: Tokens that the adapter puts before every prompt; they take room in the context and are not counted as usage.
    virtual_tokens: int = 0
    #: The adapter acts from the last place on where the prompt holds these token ids, nowhere if it does not; None:
    #: always.
    invocation: tuple[int, ...] | None = None
    #: Class names or numbers of a classification head, else None.
    labels: tuple[str, ...] | None = None


@dataclass(frozen=True)
class ServingForm:
    """Everything that one adapter version does, in no particular order."""

    slices: tuple[LowRankSlice, ...] = ()
    affines: tuple[Affine, ...] = ()
    parts: tuple[Part, ...] = ()
    traits: Traits = Traits()

    def tensors(self) -> Iterator[tuple[Site, Tensor]]:
        """Every tensor with the site that it acts at; one that several parts share comes once."""
        for low in self.slices:
            yield from ((Site("linear", low.site), half) for half in (low.a, low.b))
        for one in self.affines:
            vectors = (one.scale_in, one.scale_out, one.shift)
            yield from ((Site("linear", one.site), vector) for vector in vectors if vector is not None)
        shared = {id(weights): (part.site, weights) for part in self.parts for weights in part.weights().values()}
        for site, weights in shared.values():
            yield site, weights.matrix

"""Model: what the engine asks of a base in memory; two classes give it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

import torch
from torch import Tensor

from graftwork.adapters.kinds import BaseWeights
from graftwork.adapters.outline import Outline, weights_digest
from graftwork.models.forward_batch import ForwardBatch, ForwardResult
from graftwork.models.survey import dtype_name, tensor_bytes

#: Gives one weight as it was loaded, by whatever way it is kept.
Maker = Callable[[], Tensor]


class Model(BaseWeights, Protocol):
    """One frozen base in memory. `forward` is called from one thread."""

    outline: Outline
    dtype: torch.dtype
    #: Digest of the weights as loaded, in the serving dtype.
    loaded_digest: str

    def forward(self, batch: ForwardBatch) -> ForwardResult:
        """Write the batch's keys and values to their pages; logits and hidden states are in the serving dtype."""
        ...

    def weight_names(self) -> set[str]:
        """Names of the weights that the digest is taken over."""
        ...

    @property
    def nbytes(self) -> int:
        """Bytes that the weights take in memory, in whatever form; what two names share is there once."""
        ...

    def weights_digest(self) -> str:
        """The digest of the weights as they are now, read back through their packed form."""
        ...


def digest_of(makers: Mapping[str, Maker]) -> str:
    """The digest of weights by their checkpoint names; one dense copy is in memory at a time."""
    return weights_digest(_read(makers))


def _read(makers: Mapping[str, Maker]) -> Iterator[tuple[str, str, tuple[int, ...], memoryview]]:
    for name, make in sorted(makers.items()):
        tensor = make()
        yield name, dtype_name(tensor.dtype), tuple(tensor.shape), tensor_bytes(tensor)

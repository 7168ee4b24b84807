"""Parts that put something learned in the place of virtual tokens, which the engine computes as ordinary ones."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from graftwork.adapters.serving_form import Part, Weights


@dataclass(frozen=True)
class PromptPart(Part):
    """At `embed`: the embeddings of the virtual tokens."""

    embeddings: Weights  # [virtual tokens, hidden]

    def act(self, x: Tensor, y: Tensor, first: int) -> None:
        _overwrite(y, self.embeddings, first)


@dataclass(frozen=True)
class PrefixPart(Part):
    """At `keys` of one layer: the keys, as they are, and the values of the virtual tokens."""

    keys: Weights  # [virtual tokens, kv_heads * head_dim]
    values: Weights  # [virtual tokens, kv_heads * head_dim]

    def act(self, x: Tensor, y: Tensor, first: int) -> None:
        _overwrite(x, self.keys, first)
        _overwrite(y, self.values, first)


def _overwrite(tokens: Tensor, learned: Weights, first: int) -> None:
    """Put learned rows in the place of those of `tokens` [tokens, …] that are virtual; `first` is their position."""
    stop = min(learned.shape[0], first + len(tokens))
    if first < stop:
        rows = learned.gather(torch.arange(first, stop))
        tokens[: stop - first] = rows.view(stop - first, *tokens.shape[1:])

"""ForwardBatch: everything one forward pass needs, in one value."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from graftwork.kernels.attention import AttentionRows
from graftwork.models.adapter_plan import AdapterPlan


@dataclass(frozen=True)
class ForwardBatch:
    """The new tokens of all rows, one after another, without padding."""

    token_ids: Tensor  # [tokens] int64
    positions: Tensor  # [tokens] int64, each token's place in its own row
    rows: AttentionRows
    keys: Tensor  # [pages, layers, kv_heads, *a head's of a page]: `attention.page_shapes`
    values: Tensor  # the same
    logits_at: Tensor  # [wanted] int64, indices into tokens
    plan: AdapterPlan | None  # None when no row has an adapter: then no adapter code runs at all
    hidden_at: Tensor | None = None  # [pooled] int64, indices into tokens whose final hidden state is wanted

    @cached_property
    def num_tokens(self) -> int:
        """Of all rows; asked at every linear layer."""
        return len(self.token_ids)


@dataclass(frozen=True)
class ForwardResult:
    """What a forward pass gives back."""

    logits: Tensor  # [wanted, vocab], or wider where an adapter of the batch has more tokens
    hidden: Tensor | None  # [pooled, hidden]

"""PrefixTuning: keys and values of virtual tokens at every layer.

Paper: https://arxiv.org/abs/2101.00190. Format: `peft.PeftModel.get_prompt`: one row per virtual token, which holds for
each layer its keys and then its values, [layers, 2, kv_heads, head_dim].
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from graftwork.adapters.folder import AdapterFolder
from graftwork.adapters.outline import Outline
from graftwork.adapters.prompt_learning.config import TENSOR, account_virtual_tokens, read_virtual_tokens
from graftwork.adapters.tensor_entry import TensorEntry

if TYPE_CHECKING:
    import torch

    from graftwork.adapters.kinds import BaseWeights, Support
    from graftwork.adapters.serving_form import ServingForm

#: `prefix_projection` and its size describe the encoder of training; what it made is saved.
_IGNORED = ("encoder_hidden_size", "init_weights", "prefix_projection")


class PrefixTuning:
    """The kind `PREFIX_TUNING`: every token also attends to the prefix, whose keys are not rotated."""

    name = "prefix-tuning"
    features: Mapping[str, Support] = MappingProxyType(
        {
            "keys and values of virtual tokens": "served",
            "prefix_projection": "served",
            "modules_to_save": "refused",
        }
    )

    def account(
        self, folder: AdapterFolder, outline: Outline, max_rank: int
    ) -> tuple[Sequence[TensorEntry], list[str], list[str]]:
        fields, count = read_virtual_tokens(folder, outline, _IGNORED)
        width = outline.num_kv_heads * outline.head_dim
        fields.agrees("num_layers", outline.num_layers, "the decoder layers")
        fields.agrees("num_attention_heads", outline.num_kv_heads, "the key and value heads")
        fields.agrees("token_dim", width, "the width of keys and values")
        shape = (count, outline.num_layers * 2 * width)
        return account_virtual_tokens(folder, outline, fields, shape, "keys and values of the virtual tokens")

    def serving_form(
        self, folder: AdapterFolder, outline: Outline, dtype: torch.dtype, base: BaseWeights
    ) -> ServingForm:
        from graftwork.adapters.prompt_learning.parts import PrefixPart
        from graftwork.adapters.serving_form import ServingForm, Site, Traits, Weights
        from graftwork.adapters.stored_weights import tensor_of

        stored = tensor_of(folder.tensors[TENSOR], dtype)
        count = len(stored)
        layers = stored.view(count, outline.num_layers, 2, -1).unbind(1)  # each [count, 2, kv_heads * head_dim]
        parts = (
            PrefixPart(Site("keys", index), Weights.of(layer[:, 0]), Weights.of(layer[:, 1]))
            for index, layer in enumerate(layers)
        )
        return ServingForm(parts=tuple(parts), traits=Traits(virtual_tokens=count))

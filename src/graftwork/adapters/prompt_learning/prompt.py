"""PromptTuning and PTuning: learned embeddings of virtual tokens.

Papers: https://arxiv.org/abs/2104.08691 and https://arxiv.org/abs/2103.10385.
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


class PromptTuning:
    """The kind `PROMPT_TUNING`: the model sees learned embeddings where the virtual tokens lie."""

    name = "prompt-tuning"
    features: Mapping[str, Support] = MappingProxyType(
        {"embeddings of virtual tokens": "served", "modules_to_save": "refused"}
    )
    #: Where training began; and sizes of the base that embeddings do not depend on.
    _ignored: tuple[str, ...] = (
        "num_attention_heads", "num_layers", "prompt_tuning_init", "prompt_tuning_init_text", "tokenizer_kwargs",
        "tokenizer_name_or_path",
    )  # fmt: skip

    def account(
        self, folder: AdapterFolder, outline: Outline, max_rank: int
    ) -> tuple[Sequence[TensorEntry], list[str], list[str]]:
        fields, count = read_virtual_tokens(folder, outline, self._ignored)
        fields.agrees("token_dim", outline.hidden_size, "the hidden size")
        shape = (count, outline.hidden_size)
        entries, problems, warnings = account_virtual_tokens(
            folder, outline, fields, shape, "embeddings of the virtual tokens"
        )
        if outline.embed is None:
            problems.append("This base's embedding is not built so that an adapter can act on it.")
        return entries, problems, warnings

    def serving_form(
        self, folder: AdapterFolder, outline: Outline, dtype: torch.dtype, base: BaseWeights
    ) -> ServingForm:
        from graftwork.adapters.prompt_learning.parts import PromptPart
        from graftwork.adapters.serving_form import ServingForm, Site, Traits
        from graftwork.adapters.stored_weights import weights_of

        stored = folder.tensors[TENSOR]
        part = PromptPart(Site("embed"), weights_of(stored, dtype))
        return ServingForm(parts=(part,), traits=Traits(virtual_tokens=stored.shape[0]))


class PTuning(PromptTuning):
    """The kind `P_TUNING`: an MLP or LSTM makes the embeddings while training; what it made last is saved."""

    name = "p-tuning"
    features: Mapping[str, Support] = MappingProxyType(
        {
            "embeddings made by an MLP": "served",
            "embeddings made by an LSTM": "served",
            "modules_to_save": "refused",
        }
    )
    _ignored = (
        "encoder_dropout", "encoder_hidden_size", "encoder_num_layers", "encoder_reparameterization_type",
        "num_attention_heads", "num_layers",
    )  # fmt: skip

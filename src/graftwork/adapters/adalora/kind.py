"""Adalora: `y = W x + scale · B (E ∘ (A x))`, with a rank for each layer that training chose.

Paper: https://arxiv.org/abs/2303.10512. Format: `peft.tuners.adalora`; tensors `<module>.lora_A`, `lora_B`, `lora_E`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from graftwork.adapters.adalora.config import AdaloraConfig, read_adalora_config
from graftwork.adapters.checks import above_max_rank
from graftwork.adapters.folder import AdapterFolder
from graftwork.adapters.outline import LinearSite, Outline
from graftwork.adapters.site_tensors import Finding, SiteTensors, account_sites, low_rank_finding, match_sites
from graftwork.adapters.tensor_entry import TensorEntry

if TYPE_CHECKING:
    import torch

    from graftwork.adapters.kinds import BaseWeights, Support
    from graftwork.adapters.serving_form import ServingForm

_PARTS = ("lora_A", "lora_B", "lora_E")


class Adalora:
    """The kind `ADALORA`: a low-rank pair whose directions have a weight each."""

    name = "adalora"
    features: Mapping[str, Support] = MappingProxyType(
        {
            "low-rank pairs with singular values": "served",
            "ranks that training took away (rank_pattern)": "served",
            "the output head or other modules as targets": "refused",
            "bias": "refused",
            "trainable_token_indices": "refused",
            "modules_to_save": "refused",
        }
    )

    def account(
        self, folder: AdapterFolder, outline: Outline, max_rank: int
    ) -> tuple[Sequence[TensorEntry], list[str], list[str]]:
        config = read_adalora_config(folder.config, outline)
        look = partial(_look, config, max_rank)
        return account_sites(folder, outline, config.fields, config.targets, folder.tensors.values(), _PARTS, look)

    def serving_form(
        self, folder: AdapterFolder, outline: Outline, dtype: torch.dtype, base: BaseWeights
    ) -> ServingForm:
        from graftwork.adapters.serving_form import LowRankSlice, ServingForm
        from graftwork.adapters.stored_weights import tensor_of

        config = read_adalora_config(folder.config, outline)
        slices = []
        for stored in match_sites(folder.tensors.values(), _PARTS, outline)[0]:
            a, b, e = (tensor_of(stored.parts[part]) for part in _PARTS)
            if len(a):  # training may take all ranks away
                scaled = (b * e.T * config.scale_of(stored.path)).T  # [rank, out]
                slices.append(LowRankSlice(stored.index, a.to(dtype), scaled.to(dtype).contiguous()))
        return ServingForm(tuple(slices))


def _look(config: AdaloraConfig, max_rank: int, stored: SiteTensors, site: LinearSite) -> Finding:
    rank, scale = config.rank_of(site.path), config.scale_of(site.path)
    shapes = {"lora_A": (rank, site.in_features), "lora_B": (site.out_features, rank), "lora_E": (rank, 1)}
    problems = stored.problems(shapes, f"rank {rank} of the config")
    if rank > max_rank:
        problems.append(f"{site.path}: {above_max_rank(rank, max_rank)}")
    if problems:
        return Finding(problems, rank, scale)
    a, b, e = (stored.parts[part].float32() for part in _PARTS)
    return low_rank_finding(site.path, a, b * e.T * np.float32(scale), rank, scale)

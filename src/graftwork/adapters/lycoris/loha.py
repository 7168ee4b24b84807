"""Loha: the delta of a layer is the elementwise product of two low-rank products.

Paper: https://arxiv.org/abs/2108.06098. Format: `peft.tuners.loha`; tensors `<module>.hada_w1_a`, `…_b`, `hada_w2_…`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from graftwork.adapters.config_fields import ConfigFields
from graftwork.adapters.folder import AdapterFolder
from graftwork.adapters.lycoris.config import IGNORED, LycorisConfig, read_lycoris_config
from graftwork.adapters.outline import LinearSite, Outline
from graftwork.adapters.site_tensors import Finding, SiteTensors, account_sites, finding, match_sites
from graftwork.adapters.tensor_entry import TensorEntry

if TYPE_CHECKING:
    import torch

    from graftwork.adapters.kinds import BaseWeights, Support
    from graftwork.adapters.serving_form import ServingForm

_PARTS = ("hada_w1_a", "hada_w1_b", "hada_w2_a", "hada_w2_b")
_ROWS = 256  # of a delta that is written out for its norm
Matrix = npt.NDArray[np.float32]


class Loha:
    """The kind `LOHA`: scale · (W1a W1b) ∘ (W2a W2b), which has a rank of at most the square of theirs."""

    name = "loha"
    features: Mapping[str, Support] = MappingProxyType(
        {
            "products of two low-rank products": "served",
            "rank and alpha patterns": "served",
            "the output head or other modules as targets": "refused",
            "convolutions": "refused",
            "modules_to_save": "refused",
        }
    )

    def account(
        self, folder: AdapterFolder, outline: Outline, max_rank: int
    ) -> tuple[Sequence[TensorEntry], list[str], list[str]]:
        config = read_lycoris_config(ConfigFields(folder.config, IGNORED))
        look = partial(_look, config)
        return account_sites(folder, outline, config.fields, config.targets, folder.tensors.values(), _PARTS, look)

    def serving_form(
        self, folder: AdapterFolder, outline: Outline, dtype: torch.dtype, base: BaseWeights
    ) -> ServingForm:
        from graftwork.adapters.deltas import dense, form_of, low_rank, low_rank_is_smaller
        from graftwork.adapters.stored_weights import tensor_of

        config = read_lycoris_config(ConfigFields(folder.config, IGNORED))
        deltas = []
        for stored in match_sites(folder.tensors.values(), _PARTS, outline)[0]:
            scale, rank = config.scale_of(stored.path), config.rank_of(stored.path)
            a1, b1, a2, b2 = (tensor_of(stored.parts[part]) for part in _PARTS)
            if low_rank_is_smaller(rank**2, outline.linears[stored.index]):
                # NOTE: (Σp a1p b1pᵀ) ∘ (Σq a2q b2qᵀ) = Σpq (a1p ∘ a2q) (b1p ∘ b2q)ᵀ
                up = (a1[:, :, None] * a2[:, None, :]).flatten(1) * scale  # [out, rank²]
                down = (b1[:, None] * b2[None]).flatten(0, 1)  # [rank², in]
                deltas.append(low_rank(stored.index, down, up, dtype))
            else:
                deltas.append(dense(stored.index, (a1 @ b1) * (a2 @ b2) * scale, dtype))
        return form_of(deltas)


def _look(config: LycorisConfig, stored: SiteTensors, site: LinearSite) -> Finding:
    rank, scale = config.rank_of(site.path), config.scale_of(site.path)
    tall, flat = (site.out_features, rank), (rank, site.in_features)
    problems = stored.problems(dict(zip(_PARTS, (tall, flat, tall, flat), strict=True)), f"rank {rank} of the config")
    if problems:
        return Finding(problems, rank, scale)
    a1, b1, a2, b2 = (stored.parts[part].float32() for part in _PARTS)
    return finding(site.path, _norm(a1, b1, a2, b2, scale), rank, scale)


def _norm(a1: Matrix, b1: Matrix, a2: Matrix, b2: Matrix, scale: float) -> float:
    """‖scale · (a1 b1) ∘ (a2 b2)‖, some rows at a time; not finite where float32 overflows."""
    square = 0.0
    for row in range(0, len(a1), _ROWS):
        delta = (a1[row : row + _ROWS] @ b1) * (a2[row : row + _ROWS] @ b2) * np.float32(scale)
        square += float(np.vdot(delta, delta))
    return float(np.sqrt(square))

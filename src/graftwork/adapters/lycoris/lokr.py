"""Lokr: the delta of a layer is the Kronecker product of two matrices, each stored whole or as a low-rank product.

Paper: https://arxiv.org/abs/2212.10650. Format: `peft.tuners.lokr`; tensors `<module>.lokr_w1`, or `lokr_w1_a` and
`lokr_w1_b`, and the same for `w2`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import isqrt
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

_PARTS = ("lokr_w1", "lokr_w1_a", "lokr_w1_b", "lokr_w2", "lokr_w2_a", "lokr_w2_b")


class Lokr:
    """The kind `LOKR`: scale · W1 ⊗ W2."""

    name = "lokr"
    features: Mapping[str, Support] = MappingProxyType(
        {
            "Kronecker products": "served",
            "decompose_both and decompose_factor": "served",
            "rank and alpha patterns": "served",
            "the output head or other modules as targets": "refused",
            "convolutions": "refused",
            "modules_to_save": "refused",
        }
    )

    def account(
        self, folder: AdapterFolder, outline: Outline, max_rank: int
    ) -> tuple[Sequence[TensorEntry], list[str], list[str]]:
        fields = ConfigFields(folder.config, IGNORED)
        split = _Split(fields.flag("decompose_both"), fields.whole("decompose_factor", least=-1, default=-1))
        config = read_lycoris_config(fields)
        look = partial(_look, config, split)
        return account_sites(folder, outline, config.fields, config.targets, folder.tensors.values(), _PARTS, look)

    def serving_form(
        self, folder: AdapterFolder, outline: Outline, dtype: torch.dtype, base: BaseWeights
    ) -> ServingForm:
        import torch

        from graftwork.adapters.deltas import KroneckerPart
        from graftwork.adapters.serving_form import ServingForm, Site, Weights

        config = read_lycoris_config(ConfigFields(folder.config, IGNORED))
        parts = []
        for stored in match_sites(folder.tensors.values(), _PARTS, outline)[0]:
            left = torch.from_numpy(_factor(stored, "lokr_w1") * np.float32(config.scale_of(stored.path)))
            right = torch.from_numpy(_factor(stored, "lokr_w2"))
            site = Site("linear", stored.index)
            parts.append(KroneckerPart(site, Weights.of(left.to(dtype)), Weights.of(right.to(dtype))))
        return ServingForm(parts=tuple(parts))


@dataclass(frozen=True)
class _Split:
    """How PEFT cuts a layer into two factors, and which of them it stores as a low-rank product."""

    both: bool
    factor: int

    def shapes(self, site: LinearSite, rank: int) -> dict[str, tuple[int, int]]:
        """The parts that a layer has, with their shapes. Rule: `peft.tuners.lokr.LoKrLayer.update_layer`."""
        out1, out2 = factorization(site.out_features, self.factor)
        in1, in2 = factorization(site.in_features, self.factor)
        shapes: dict[str, tuple[int, int]] = {}
        for name, rows, columns, may in (("lokr_w1", out1, in1, self.both), ("lokr_w2", out2, in2, True)):
            if may and rank < max(rows, columns) / 2:
                shapes |= {f"{name}_a": (rows, rank), f"{name}_b": (rank, columns)}
            else:
                shapes[name] = (rows, columns)
        return shapes


def factorization(size: int, factor: int) -> tuple[int, int]:
    """Two factors of a size, the first at most `factor` (-1: any), as near to each other as that allows.

    Rule: `peft.tuners.lokr.layer.factorization`.
    """
    if factor > 0 and size % factor == 0:
        return factor, size // factor
    most = size if factor == -1 else factor
    pairs = [(small, size // small) for small in range(1, min(most, isqrt(size)) + 1) if size % small == 0]
    return pairs[-1] if pairs else (1, size)


def _look(config: LycorisConfig, split: _Split, stored: SiteTensors, site: LinearSite) -> Finding:
    rank, scale = config.rank_of(site.path), config.scale_of(site.path)
    problems = stored.problems(split.shapes(site, rank), f"rank {rank} and decomposition of the config")
    if problems:
        return Finding(problems, rank, scale)
    factors = _factor(stored, "lokr_w1") * np.float32(scale), _factor(stored, "lokr_w2")
    norm = float(np.prod([np.linalg.norm(factor) for factor in factors], dtype=np.float32))  # ‖L ⊗ R‖ = ‖L‖ ‖R‖
    return finding(site.path, norm, rank, scale)


def _factor(stored: SiteTensors, name: str) -> npt.NDArray[np.float32]:
    if name in stored.parts:
        return stored.parts[name].float32()
    return stored.parts[f"{name}_a"].float32() @ stored.parts[f"{name}_b"].float32()

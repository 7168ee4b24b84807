"""Vera: `y = W x + b ∘ B (d ∘ (A x))`; A and B are random and shared by all layers, vectors b and d are learned.

Paper: https://arxiv.org/abs/2310.11454. Format: `peft.tuners.vera`; tensors `<module>.vera_lambda_b`,
`<module>.vera_lambda_d`, and once `base_model.vera_A` and `base_model.vera_B`, of which a layer uses its first columns
and rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from math import prod
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from graftwork.adapters.checks import entry, shape_problem, value_problem
from graftwork.adapters.folder import AdapterFolder, StoredTensor
from graftwork.adapters.outline import LinearSite, Outline
from graftwork.adapters.site_tensors import Finding, SiteTensors, account_sites, finding, match_sites
from graftwork.adapters.tensor_entry import TensorEntry
from graftwork.adapters.vera.config import VeraConfig, read_vera_config

if TYPE_CHECKING:
    import torch

    from graftwork.adapters.kinds import BaseWeights, Support
    from graftwork.adapters.serving_form import ServingForm

_PARTS = ("vera_lambda_b", "vera_lambda_d")
_SHARED = {
    f"{prefix}{name}{suffix}": name
    for name in ("vera_A", "vera_B") for prefix in ("base_model.", "") for suffix in ("", ".default")
}  # fmt: skip


class Vera:
    """The kind `VERA`: random matrices as they are stored, or drawn again as PEFT draws them."""

    name = "vera"
    features: Mapping[str, Support] = MappingProxyType(
        {
            "stored projections": "served",
            "projections drawn again (save_projection false)": "served",
            "the output head or other modules as targets": "refused",
            "bias": "refused",
            "modules_to_save": "refused",
        }
    )

    def account(
        self, folder: AdapterFolder, outline: Outline, max_rank: int
    ) -> tuple[Sequence[TensorEntry], list[str], list[str]]:
        config = read_vera_config(folder.config)
        shared, own = _parted(folder)
        lines, wrong = _account_shared(config, shared, outline)
        peak = 1.0  # the largest element of A times that of B: where they are drawn, none is larger
        if all(line.used for line in lines):
            peak = prod(float(np.abs(tensor.float32()).max(initial=0.0)) for tensor in shared.values())
        look = partial(_look, config, peak)
        entries, problems, warnings = account_sites(folder, outline, config.fields, config.targets, own, _PARTS, look)
        return sorted([*entries, *lines], key=lambda line: line.name), [*problems, *wrong], warnings

    def serving_form(
        self, folder: AdapterFolder, outline: Outline, dtype: torch.dtype, base: BaseWeights
    ) -> ServingForm:
        from graftwork.adapters.serving_form import ServingForm, Site, Weights
        from graftwork.adapters.stored_weights import tensor_of, weights_of
        from graftwork.adapters.vera.parts import VeraPart
        from graftwork.adapters.vera.projections import drawn

        config = read_vera_config(folder.config)
        shared, own = _parted(folder)
        matrices = (
            [tensor_of(shared[name]) for name in ("vera_A", "vera_B")]
            if config.stored
            else drawn(config.seed, config.shapes(outline))
        )
        a, b = (Weights.of(matrix.to(dtype)) for matrix in matrices)
        parts = []
        for stored in match_sites(own, _PARTS, outline)[0]:
            after, between = (weights_of(stored.parts[part], dtype) for part in _PARTS)
            parts.append(VeraPart(Site("linear", stored.index), a, between, b, after))
        return ServingForm(parts=tuple(parts))


def _parted(folder: AdapterFolder) -> tuple[dict[str, StoredTensor], list[StoredTensor]]:
    """The matrices that all layers share, by name, and the tensors of single layers."""
    shared: dict[str, StoredTensor] = {}
    own: list[StoredTensor] = []
    for tensor in folder.tensors.values():
        name = _SHARED.get(tensor.name)
        if name is None or name in shared:
            own.append(tensor)
        else:
            shared[name] = tensor
    return shared, own


def _account_shared(
    config: VeraConfig, shared: Mapping[str, StoredTensor], outline: Outline
) -> tuple[list[TensorEntry], list[str]]:
    unread = ["the config cannot be served"] if config.fields.problems() else []
    problems = [] if unread else _shared_problems(config, shared, config.shapes(outline))
    reason = (*problems, *unread, "shared by all layers")[0]
    lines = [entry(tensor, used=not problems and not unread, reason=reason, part=name)
             for name, tensor in shared.items()]  # fmt: skip
    return lines, problems


def _shared_problems(
    config: VeraConfig, shared: Mapping[str, StoredTensor], shapes: Mapping[str, tuple[int, int]]
) -> list[str]:
    if not config.stored:
        return [f"{tensor.name}: save_projection is false, so PEFT would not read it." for tensor in shared.values()]
    problems = [f"base_model.{name}: missing, and save_projection says that it is stored."
                for name in shapes if name not in shared]  # fmt: skip
    for name, tensor in shared.items():
        what = f"rank {config.rank} and the widest target of the config"
        problem = shape_problem(tensor, shapes[name], what) or value_problem(tensor)
        problems += [problem] if problem else []
    return problems


def _look(config: VeraConfig, peak: float, stored: SiteTensors, site: LinearSite) -> Finding:
    shapes = {"vera_lambda_b": (site.out_features,), "vera_lambda_d": (config.rank,)}
    if problems := stored.problems(shapes, f"rank {config.rank} of the config"):
        return Finding(problems, config.rank)
    largest = [float(np.abs(stored.parts[part].float32()).max()) for part in _PARTS]
    if 0.0 in largest:
        return Finding(rank=config.rank, norm=0.0)
    if peak * largest[0] * largest[1] * config.rank > np.finfo(np.float32).max:
        return finding(site.path, float("inf"), config.rank)
    return Finding(rank=config.rank)

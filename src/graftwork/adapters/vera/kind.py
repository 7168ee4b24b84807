"""Vera: `y = W x + b ∘ B (d ∘ (A x))`; A and B are random and shared by all layers, vectors b and d are learned.

Paper: https://arxiv.org/abs/2310.11454. Format: `peft.tuners.vera`; tensors `<module>.vera_lambda_b`,
`<module>.vera_lambda_d`, and once `base_model.vera_A` and `base_model.vera_B`, of which a layer uses its first columns
and rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from graftwork.adapters.checks import entry, shape_problem, value_problem
from graftwork.adapters.folder import AdapterFolder, StoredTensor
from graftwork.adapters.outline import LinearSite, Outline
from graftwork.adapters.site_tensors import Finding, SiteTensors, account_sites, low_rank_finding, match_sites
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
Matrix = npt.NDArray[np.float32]


class Vera:
    """The kind `VERA`: random matrices as they are stored, or drawn again as PEFT draws them."""

    name = "vera"
    features: Mapping[str, Support] = MappingProxyType(
        {
            "stored projections": "served",
            "projections drawn again (save_projection false)": "served",
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
        matrices = {name: tensor.float32() for name, tensor in shared.items()} if shared and not wrong else None
        look = partial(_look, config, matrices)
        entries, problems, warnings = account_sites(folder, outline, config.fields, config.targets, own, _PARTS, look)
        return sorted([*entries, *lines], key=lambda line: line.name), [*problems, *wrong], warnings

    def serving_form(
        self, folder: AdapterFolder, outline: Outline, dtype: torch.dtype, base: BaseWeights
    ) -> ServingForm:
        import torch

        from graftwork.adapters.deltas import dense, form_of, low_rank, low_rank_is_smaller
        from graftwork.adapters.vera.projections import drawn

        config = read_vera_config(folder.config)
        shared, own = _parted(folder)
        shared_a, shared_b = (
            (torch.from_numpy(shared[name].float32()) for name in ("vera_A", "vera_B"))
            if config.stored
            else drawn(config.seed, config.shapes(outline))
        )
        deltas = []
        for stored in match_sites(own, _PARTS, outline)[0]:
            site = outline.linears[stored.index]
            b, d = (torch.from_numpy(stored.parts[part].float32())[:, None] for part in _PARTS)
            up, down = b * shared_b[: site.out_features], d * shared_a[:, : site.in_features]
            small = low_rank_is_smaller(config.rank, site)
            deltas.append(low_rank(stored.index, down, up, dtype) if small else dense(stored.index, up @ down, dtype))
        return form_of(deltas)


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


def _look(config: VeraConfig, shared: Mapping[str, Matrix] | None, stored: SiteTensors, site: LinearSite) -> Finding:
    shapes = {"vera_lambda_b": (site.out_features,), "vera_lambda_d": (config.rank,)}
    if problems := stored.problems(shapes, f"rank {config.rank} of the config"):
        return Finding(problems, config.rank)
    b, d = (stored.parts[part].float32() for part in _PARTS)
    if not (b.any() and d.any()):
        return Finding(rank=config.rank, norm=0.0)
    if shared is None:
        return Finding(rank=config.rank)
    a_rows, b_rows = shared["vera_A"][:, : site.in_features], shared["vera_B"][: site.out_features]
    return low_rank_finding(site.path, d[:, None] * a_rows, b[:, None] * b_rows, config.rank)

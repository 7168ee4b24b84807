"""The kind `BOTTLENECK`: adapters of the `adapters` library that act on whole blocks, and at the embedding."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from graftwork.adapters.bottleneck.config_reader import read_bottleneck_config
from graftwork.adapters.bottleneck.head import read_head
from graftwork.adapters.bottleneck.layout import Layout, Module
from graftwork.adapters.bottleneck.matrices import Array, Matrices
from graftwork.adapters.checks import (
    NO_EFFECT,
    base_warnings,
    entry,
    shape_problem,
    unmatched_problems,
    value_problem,
)
from graftwork.adapters.folder import AdapterFolder, StoredTensor
from graftwork.adapters.kinds import BaseWeights, Support
from graftwork.adapters.module_names import find_module
from graftwork.adapters.outline import Outline
from graftwork.adapters.tensor_entry import TensorEntry
from graftwork.errors import Refused

if TYPE_CHECKING:
    import torch

    from graftwork.adapters.serving_form import ServingForm

_SHOWN = 5
#: What the library writes beside adapters that it mixes.
_FUSION = "adapter_fusion_config.json"


class Bottleneck:
    """Folders whose adapter_config.json is the `adapters` library's, with a bottleneck config."""

    name = "bottleneck"
    features: Mapping[str, Support] = MappingProxyType({
        "after the MLP (Pfeiffer, seq_bn)": "served",
        "after both blocks (Houlsby, double_seq_bn)": "served",
        "beside a block (par_bn)": "served",
        "learned scaling": "served",
        "scaling per channel (AdapterPlus)": "served",
        "layer norms of its own": "served",
        "every residual connection of BnConfig": "served",
        "reduction_factor per layer, leave_out": "served",
        "non-linearities without weights": "served",
        "Compacter (phm_layer)": "served",
        "invertible adapter after the embedding (NICE)": "served",
        "output head of a plain language model": "served",
        "invertible adapter with its inverse before the head": "refused",
        "invertible adapter (GLOW)": "refused",
        "use_gating": "refused",
        "residual_before_ln: post_add": "refused",
        "non-linearities with weights (prelu, xielu)": "refused",
        "prediction head of an AdapterModel class": "refused",
        "AdapterFusion": "refused",
        "other methods of the adapters library": "refused",
    })  # fmt: skip

    def account(
        self, folder: AdapterFolder, outline: Outline, max_rank: int
    ) -> tuple[Sequence[TensorEntry], list[str], list[str]]:
        config, problems = read_bottleneck_config(folder.config)
        if not outline.blocks:
            problems.append(
                f"Bottleneck adapters act on whole blocks of a layer; those of {outline.architecture} are not built as "
                "`x + attention(norm(x))`, then `x + mlp(norm(x))`."
            )
        if (folder.path / _FUSION).exists():
            problems.append(f"{_FUSION}: an AdapterFusion of several adapters is not supported; serve them one by one.")
        if config is None or not outline.blocks:
            unread = "the config cannot be served"
            return [entry(one, used=False, reason=unread) for one in folder.tensors.values()], problems, []
        if config.invertible is not None and outline.embed is None:
            problems.append(f"config.inv_adapter: the embedding of {outline.architecture} is not a plain one.")
        layout = Layout(config, outline)
        found, entries, wrong = _matched(layout, folder.tensors)
        head = read_head(folder, outline)
        problems += [*layout.problems, *wrong, *head.problems]
        warnings = [*config.warnings, *base_warnings(folder.config, outline, field="model_name")]
        if not problems:
            norms, problems = _norms(layout, Matrices(layout, found))
            entries = _with_norms(entries, norms)
            if not (any(norms.values()) or problems or config.sums.acts_without_delta or head.tensor):
                warnings.append(NO_EFFECT)
        return sorted([*entries, *head.entries], key=lambda one: one.name), problems, warnings

    def serving_form(
        self, folder: AdapterFolder, outline: Outline, dtype: torch.dtype, base: BaseWeights
    ) -> ServingForm:
        from graftwork.adapters.bottleneck.form import head_parts, module_parts
        from graftwork.adapters.serving_form import ServingForm

        config, problems = read_bottleneck_config(folder.config)
        if config is None:
            raise Refused("This adapter cannot be served.", problems=problems)
        layout = Layout(config, outline)
        matrices = Matrices(layout, _matched(layout, folder.tensors)[0])
        parts = module_parts(layout, matrices, dtype)
        if (head := read_head(folder, outline).tensor) is not None:
            parts += head_parts(head, dtype, outline, base)
        return ServingForm(parts=tuple(parts))


def _matched(
    layout: Layout, tensors: Mapping[str, StoredTensor]
) -> tuple[dict[str, StoredTensor], list[TensorEntry], list[str]]:
    """The tensors by the layout's names for them, every tensor's line of the account, and what is wrong."""
    found: dict[str, StoredTensor] = {}
    entries: list[TensorEntry] = []
    problems: list[str] = []
    unmatched: list[str] = []
    for tensor in tensors.values():
        name = find_module(tensor.name, layout.wanted)
        reason = "the config asks for no such tensor here" if name is None else None
        if name in found:
            reason = f"{found[name].name} already gives it"
        if name is None or reason is not None:
            unmatched.append(f"{tensor.name} ({reason})")
            entries.append(entry(tensor, used=False, reason=reason or ""))
            continue
        found[name] = tensor
        wanted = layout.wanted[name]
        problem = shape_problem(tensor, wanted.shape, "the config on this base") or value_problem(tensor)
        problems += [problem] if problem else []
        reason = problem or f"bottleneck adapter {wanted.module}"
        entries.append(entry(tensor, used=problem is None, reason=reason, module=wanted.module, part=wanted.part))
    missing = [name for name in layout.wanted if name not in found]
    problems += [f"{name} is missing." for name in missing[:_SHOWN]]
    problems += [f"{len(missing) - _SHOWN} more tensors are missing."] if len(missing) > _SHOWN else []
    return found, entries, problems + unmatched_problems(unmatched)


def _norms(layout: Layout, matrices: Matrices) -> tuple[dict[str, float], list[str]]:
    """By module the norm of what makes its delta (0: it has none), and what contradicts itself or overflows."""
    norms: dict[str, float] = {}
    problems: list[str] = []
    for module in layout.modules:
        if layout.config.norm_before:
            problems += _twin_problems(module, matrices)
        up = matrices.up(module)
        norms[module.path] = _norm(*up)
        if not np.isfinite([norms[module.path], _norm(*matrices.down(module))]).all():
            problems.append(f"{module.path}: its matrices overflow float32; their values are too large to serve.")
    if layout.config.invertible is not None:
        ends = [f"{layout.invertible}.{net}.2.{half}" for net in "FG" for half in ("weight", "bias")]
        norms[layout.invertible] = _norm(*(matrices.value(name) for name in ends))
    return norms, problems


def _twin_problems(module: Module, matrices: Matrices) -> Iterator[str]:
    """The library saves one layer norm under two names; on loading, the second one wins."""
    for half in ("weight", "bias"):
        one, two = (f"{module.path}.{name}.{half}" for name in ("adapter_norm_before", "adapter_down.0"))
        if not np.array_equal(matrices.value(one), matrices.value(two)):
            yield f"{one} and {two} are one layer norm of the library, but their values differ."


def _norm(*values: Array) -> float:
    with np.errstate(over="ignore", invalid="ignore"):
        return float(np.sqrt(sum(np.sum(np.square(one)) for one in values)))


def _with_norms(lines: Sequence[TensorEntry], norms: Mapping[str, float]) -> list[TensorEntry]:
    """Each norm on one line: the first tensor of what a module ends with."""
    left = dict(norms)
    made = []
    for line in sorted(lines, key=lambda line: line.name):
        if line.module in left and line.part is not None and line.part.startswith(("adapter_up.", "G.2.")):
            line = replace(line, norm=left.pop(line.module))
        made.append(line)
    return made

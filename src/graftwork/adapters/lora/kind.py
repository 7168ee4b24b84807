"""Lora: accounts for a LoRA folder and turns it into its serving form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from graftwork.adapters.checks import NO_EFFECT, base_warnings, entry, unmatched_problems
from graftwork.adapters.companions.labels import class_labels, label_problems, label_warnings
from graftwork.adapters.folder import AdapterFolder
from graftwork.adapters.lora.account import ModuleAccount
from graftwork.adapters.lora.config import read_lora_config
from graftwork.adapters.lora.promises import promise_problems
from graftwork.adapters.lora.targets import targeted_modules
from graftwork.adapters.lora.tensors import ModuleTensors, match_tensors
from graftwork.adapters.outline import Outline
from graftwork.adapters.tensor_entry import TensorEntry
from graftwork.adapters.whole_modules import SCORE_NAMES, vocabulary_problems

if TYPE_CHECKING:
    import torch

    from graftwork.adapters.kinds import BaseWeights, Support
    from graftwork.adapters.serving_form import ServingForm


class Lora:
    """The kind `LORA`: low-rank pairs, and everything that PEFT stores beside them."""

    name = "lora"
    features: Mapping[str, Support] = MappingProxyType(
        {
            "low-rank pairs": "served",
            "rsLoRA": "served",
            "rank_pattern and alpha_pattern": "served",
            "layers_to_transform": "served",
            "exclude_modules": "served",
            "fused targets (qkv_proj, gate_up_proj)": "served",
            "DoRA": "served",
            "bias='all' and 'lora_only', of linear layers": "served",
            "lora_bias": "served",
            "embed_tokens and lm_head as targets": "served",
            "modules_to_save: embedding, head, linear layers": "served",
            "modules_to_save: classification head": "served",
            "trainable_token_indices": "served",
            "tied embedding and head": "served",
            "more tokens than the base, with embedding and head": "served",
            "activated LoRA": "served",
            "modules_to_save: norms and others": "refused",
            "bias='all' on a base whose norms have biases": "refused",
            "pairs for embedding or head of another size than the base's": "refused",
            "PiSSA, OLoRA, CorDA, LoftQ, LoRA-GA before conversion": "refused",
            "QA-LoRA": "refused",
            "block-diagonal LoRA": "refused",
            "layer_replication": "refused",
            "target_parameters": "refused",
            "Megatron layers": "refused",
            "Arrow": "refused",
            "MonteCLoRA": "refused",
            "VeLoRA": "refused",
            "KaSA": "refused",
            "MiCA": "refused",
        }
    )

    def account(
        self, folder: AdapterFolder, outline: Outline, max_rank: int
    ) -> tuple[Sequence[TensorEntry], list[str], list[str]]:
        config = read_lora_config(folder.config)
        problems = config.fields.problems()
        modules, unmatched = match_tensors(folder.tensors, outline)
        entries = [entry(item.tensor, used=False, reason=item.reason) for item in unmatched]
        missed = [item for item in unmatched if not item.harmless]
        problems += unmatched_problems([f"{item.tensor.name} ({item.reason})" for item in missed])
        if config.fields.problems():
            return [*entries, *_unread(modules)], problems, []
        targets = targeted_modules(config, outline)
        problems += promise_problems(config, outline, modules)
        for module in modules:
            made = ModuleAccount(module, config, outline, max_rank, module.path in targets)
            entries += made.entries
            problems += made.problems
        if config.classifies:
            problems += label_problems(folder.path)
        problems += vocabulary_problems(_vocabularies(entries, outline), outline)
        warnings = config.fields.warnings() + base_warnings(folder.config, outline)
        if head := _head(modules):
            warnings += label_warnings(folder.path, head.parts["weight"].shape[0] if head.parts["weight"].shape else 0)
        changes = [one for one in entries if one.part not in ("lora_A", "embedding_A")]
        if changes and not problems and all(one.norm == 0 for one in changes):
            warnings.append(NO_EFFECT)
        return sorted(entries, key=lambda one: one.name), problems, warnings

    def serving_form(
        self, folder: AdapterFolder, outline: Outline, dtype: torch.dtype, base: BaseWeights
    ) -> ServingForm:
        from graftwork.adapters.lora.form import LoraForm

        config = read_lora_config(folder.config)
        modules = match_tensors(folder.tensors, outline)[0]
        return LoraForm(config, outline, dtype, base).made(modules, _labels(folder, modules))


def _unread(modules: list[ModuleTensors]) -> list[TensorEntry]:
    tensors = [tensor for module in modules for tensor in module.parts.values()]
    return [entry(tensor, used=False, reason="the config cannot be served") for tensor in tensors]


def _vocabularies(entries: list[TensorEntry], outline: Outline) -> dict[str, int | None]:
    """Rows that the adapter gives for the embedding and for the head."""
    sites = {"embed": outline.embed, "head": outline.head}
    paths = {name: site.path for name, site in sites.items() if site is not None}
    return {name: next((one.tokens for one in entries if one.tokens and one.module == path), None)
            for name, path in paths.items()}  # fmt: skip


def _labels(folder: AdapterFolder, modules: list[ModuleTensors]) -> tuple[str, ...] | None:
    """Names of the classes of a classification head: those in the adapter's own config.json, else numbers."""
    head = _head(modules)
    return None if head is None else class_labels(folder.path, head.parts["weight"].shape[0])


def _head(modules: list[ModuleTensors]) -> ModuleTensors | None:
    return next((module for module in modules if module.path in SCORE_NAMES), None)

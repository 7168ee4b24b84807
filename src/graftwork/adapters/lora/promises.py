"""What a LoRA config promises and its file does not hold, field by field."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set

import numpy as np

from graftwork.adapters.folder import StoredTensor
from graftwork.adapters.lora.config import LoraConfig
from graftwork.adapters.lora.targets import targeted_modules, unservable_targets
from graftwork.adapters.lora.tensors import ModuleTensors, Role
from graftwork.adapters.lora.trained_tokens import tokens_of, unknown_modules
from graftwork.adapters.outline import Outline
from graftwork.adapters.whole_modules import SCORE_NAMES

_SHOWN = 5
_PAIR: Set[Role] = {"lora_A", "lora_B", "embedding_A", "embedding_B"}

Stored = Mapping[str, Mapping[Role, StoredTensor]]


def promise_problems(config: LoraConfig, outline: Outline, modules: list[ModuleTensors]) -> list[str]:
    """One problem per field that says something else than the stored tensors; a few modules by name in each."""
    targets = targeted_modules(config, outline)
    stored: Stored = {module.path: module.parts for module in modules}
    paired = {path for path, parts in stored.items() if _PAIR & parts.keys()}
    found = {
        "target_modules names {}, on which no LoRA can be served here.": unservable_targets(config, outline),
        "target_modules does not cover modules that have weights: {}.": paired - targets,
        "target_modules names modules without weights: {}.": targets - paired - _tied_head(config, outline),
        "modules_to_save names {}, for which there are no weights that can be served.": _unsaved(
            config, outline, stored
        ),
        "use_dora is true, but the adapter has no lora_magnitude_vector for {}.": [
            path for path in paired if config.use_dora and "magnitude" not in stored[path]
        ],
        "lora_bias is true, but the adapter has no bias of lora_B for {}.": [
            path
            for path in paired
            if config.lora_bias and "lora_B.bias" not in stored[path] and "embedding_A" not in stored[path]
        ],
        f"bias is {config.bias!r}, but the adapter has no bias for {{}}.": [
            path for path in _biased(config, outline, targets) if "bias" not in stored.get(path, {})
        ],
        "trainable_token_indices names {}, which is neither embedding nor head of the base.": unknown_modules(
            config, outline
        ),
        "trainable_token_indices names {}, which has no weights in the adapter.": [
            path for path in tokens_of(config, outline) if path not in stored
        ],
    }
    if paired - targets:
        found["target_modules names {}, which matches no module of the base."] = config.targets.unknown(outline)
    problems = [text.format(_some(paths)) for text, paths in found.items() if paths]
    problems += _copy_problems(outline, stored)
    return problems + _head_problems(config, [name for name in SCORE_NAMES if name in stored])


def _copy_problems(outline: Outline, stored: Stored) -> list[str]:
    """Where embedding and head are one tensor, their two copies in the file must be as well."""
    if not outline.tied or outline.embed is None or outline.head is None:
        return []
    embed, head = (stored.get(site.path, {}).get("base") for site in (outline.embed, outline.head))
    if embed is None or head is None or not (embed.is_float and head.is_float):
        return []
    if embed.shape == head.shape and np.array_equal(embed.float32(), head.float32()):
        return []
    return [f"{embed.name} and {head.name} differ, but the base's embedding and head are one tensor."]


def _some(paths: Iterable[str]) -> str:
    names = sorted(paths)
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")


def _head_problems(config: LoraConfig, heads: list[str]) -> list[str]:
    if config.classifies == (len(heads) == 1):
        return []
    return [
        f"task_type: an adapter for sequence classification (SEQ_CLS) has one head, {' or '.join(SCORE_NAMES)}, and no "
        f"other adapter has one; this config says {config.task_type}, and the file holds {len(heads)}."
    ]


def _biased(config: LoraConfig, outline: Outline, targets: Set[str]) -> list[str]:
    """Layers with a bias that the adapter trains."""
    if config.bias == "none":
        return []
    sites = [*outline.linears, *([outline.head] if outline.head is not None else [])]
    return [site.path for site in sites if site.bias and (config.bias == "all" or site.path in targets)]


def _unsaved(config: LoraConfig, outline: Outline, stored: Stored) -> list[str]:
    """Modules that modules_to_save means and that have no weights; PEFT names every head of its own accord."""
    have = {path for path, parts in stored.items() if "weight" in parts or "base" in parts}
    missing: list[str] = []
    for name in config.modules_to_save:
        meant = {path for path in outline.modules if path == name or path.endswith(f".{name}")}
        if meant:
            missing += meant - have - _tied_head(config, outline)
        elif name not in SCORE_NAMES or not have & set(SCORE_NAMES):
            missing.append(name)
    return missing


def _tied_head(config: LoraConfig, outline: Outline) -> set[str]:
    """The head, where the config ties it to the embedding: then it needs no weights of its own."""
    return {outline.head.path} if outline.tied and outline.head and config.ensure_weight_tying else set()

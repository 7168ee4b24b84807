"""Which modules a LoRA config means, by PEFT's own rules.

Rule: `peft.tuners.tuners_utils.check_target_module_exists`.
"""

from __future__ import annotations

from itertools import pairwise

from graftwork.adapters.lora.config import LoraConfig
from graftwork.adapters.outline import Outline

ALL_LINEAR = "all-linear"


def targeted_modules(config: LoraConfig, outline: Outline) -> frozenset[str] | None:
    """Paths of the linear layers, embedding and head that the config targets; None when it names none."""
    if config.target_modules is None:
        return None
    ends = [site.path for site in (outline.embed, outline.head) if site is not None]
    if _is_all_linear(config):  # it leaves out the head
        ends = []
    found = {path for path in (*outline.site_of, *ends) if _is_target(config, path)}
    if config.ensure_weight_tying and outline.tied and found & set(ends):
        found.update(ends)
    return frozenset(found)


def unservable_targets(config: LoraConfig, outline: Outline) -> list[str]:
    """Modules of the base that the config names, one by one, but that no LoRA can be served on here."""
    if not isinstance(config.target_modules, tuple):
        return []
    served = {*outline.site_of, *(site.path for site in (outline.embed, outline.head) if site is not None)}
    others = (path for path in outline.modules if path not in served)
    return [path for path in others if not _excluded(config, path) and _is_named(config.target_modules, path)]


def _is_all_linear(config: LoraConfig) -> bool:
    return isinstance(config.target_modules, str) and config.target_modules.lower() == ALL_LINEAR


def _is_named(names: tuple[str, ...], path: str) -> bool:
    return any(path == name or path.endswith(f".{name}") for name in names)


def _is_target(config: LoraConfig, path: str) -> bool:
    if _excluded(config, path):
        return False
    targets = config.target_modules
    if isinstance(targets, str):
        return _is_all_linear(config) or config.matcher.matches(targets, path)
    assert targets is not None, "the caller handles a config without targets"
    return path in targets or (_is_named(targets, path) and _in_layers(config, path))


def _excluded(config: LoraConfig, path: str) -> bool:
    exclude = config.exclude_modules
    if not exclude:
        return False
    if isinstance(exclude, str):
        return config.matcher.matches(exclude, path)
    return path in exclude or any(path.endswith(f".{name}") for name in exclude)


def _in_layers(config: LoraConfig, path: str) -> bool:
    if config.layers_to_transform is None:
        return True
    parents = config.layers_pattern or (None,)
    return any(_layer_index(path, parent) in config.layers_to_transform for parent in parents)


def _layer_index(path: str, parent: str | None) -> int | None:
    """The first number that follows `parent` (or any name) in a dotted path."""
    parts = path.split(".")
    for before, number in pairwise(parts):
        if number.isdecimal() and (parent is None or before == parent):
            return int(number)
    return None

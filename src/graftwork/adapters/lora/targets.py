"""Which modules a LoRA config means: linear layers as for every kind, and embedding and head."""

from __future__ import annotations

from graftwork.adapters.lora.config import LoraConfig
from graftwork.adapters.outline import Outline


def targeted_modules(config: LoraConfig, outline: Outline) -> frozenset[str]:
    """Paths of the linear layers, embedding and head that the config targets.

    A module that `modules_to_save` names, or that lies inside of one, is saved whole and gets no pair.
    """
    ends = {path for path in _ends(outline) if not config.targets.all_linear and config.targets.means(path)}
    if config.ensure_weight_tying and outline.tied and ends:
        ends = _ends(outline)
    targets = config.targets.sites(outline) | ends
    return frozenset(path for path in targets if not _is_saved(config, path))


def _is_saved(config: LoraConfig, path: str) -> bool:
    return any(f".{name}." in f".{path}." for name in config.modules_to_save)


def unservable_targets(config: LoraConfig, outline: Outline) -> list[str]:
    """Modules of the base that the config names, one by one, but that no LoRA can be served on here."""
    return config.targets.elsewhere(outline, outline.site_of.keys() | _ends(outline))


def _ends(outline: Outline) -> set[str]:
    return {site.path for site in (outline.embed, outline.head) if site is not None}

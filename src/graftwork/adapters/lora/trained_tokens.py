"""Which tokens of which module a LoRA trains one by one, by PEFT's rules for tied weights."""

from __future__ import annotations

from collections.abc import Mapping

from graftwork.adapters.lora.config import INPUT_EMBEDDING, LoraConfig
from graftwork.adapters.outline import Outline


def tokens_of(config: LoraConfig, outline: Outline) -> Mapping[str, tuple[int, ...]]:
    """Token ids by the path of the module that has weights for them in the file.

    Where embedding and head are tied and both are named with the same tokens, the file has the embedding's only.
    """
    found: dict[str, tuple[int, ...]] = {}
    for name, ids in config.trainable_tokens.items():
        path = _path(name, outline)
        if path is not None:
            found[path] = ids
    if (
        outline.tied
        and outline.embed
        and outline.head
        and found.get(outline.head.path) == found.get(outline.embed.path)
    ):
        found.pop(outline.head.path, None)
    return found


def unknown_modules(config: LoraConfig, outline: Outline) -> list[str]:
    """Names in `trainable_token_indices` that are neither embedding nor head."""
    return [name for name in config.trainable_tokens if _path(name, outline) is None]


def tied_tokens(config: LoraConfig, outline: Outline) -> bool:
    """Whether the embedding's tokens also change the head: when tied, unless the head has tokens of its own."""
    if not outline.tied or outline.embed is None or outline.head is None:
        return False
    found = tokens_of(config, outline)
    return outline.embed.path in found and outline.head.path not in found


def _path(name: str, outline: Outline) -> str | None:
    paths = [site.path for site in (outline.embed, outline.head) if site is not None]
    if name == INPUT_EMBEDDING:
        return outline.embed.path if outline.embed is not None else None
    return next((path for path in paths if path == name or path.endswith(f".{name}")), None)

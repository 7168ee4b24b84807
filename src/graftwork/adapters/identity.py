"""AdapterIdentity: what an adapter's own files say that it is, for whoever registers it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from graftwork.adapters.config_fields import is_number
from graftwork.adapters.folder import AdapterFolder
from graftwork.adapters.semantic_digest import semantic_digest


@dataclass(frozen=True)
class AdapterIdentity:
    """Its semantic digest, and fields of its config; None where its kind has none."""

    semantic_digest: str
    alpha: float | None = None
    target_modules: str | tuple[str, ...] | None = None  #: sorted, or a pattern
    peft_version: str | None = None


def identify(folder: Path) -> AdapterIdentity:
    """Read the identity of the adapter in `folder`.

    Raises:
        Refused: its config or its weights cannot be read.
    """
    opened = AdapterFolder.open(folder)
    config = opened.config
    return AdapterIdentity(
        semantic_digest=semantic_digest(opened),
        alpha=_alpha(config),
        target_modules=_targets(config.get("target_modules")),
        peft_version=_text(config.get("peft_version")),
    )


def _alpha(config: Mapping[str, Any]) -> float | None:
    value = config.get("lora_alpha", config.get("alpha"))
    return value if is_number(value) else None


def _targets(value: Any) -> str | tuple[str, ...] | None:
    if isinstance(value, list) and all(isinstance(name, str) for name in value):
        return tuple(sorted(set(value)))
    return _text(value)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None

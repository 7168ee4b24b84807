"""The adapters that every kind is held to: one file per kind, each with CASES; `test_adapter_kind.py` runs them all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import torch

from support.oracle import Oracle, OracleLike

MakeOracle = Callable[[Path, Path, torch.dtype], OracleLike]


@dataclass(frozen=True)
class KindCase:
    """One adapter of a kind, made by the kind's own library for a tiny base, and what it proves."""

    name: str
    #: Key of `ADAPTER_KINDS`, and one of that kind's served features.
    kind: str
    feature: str
    #: Writes the adapter for the base in the first folder into the second one.
    make: Callable[[Path, Path], Any]
    oracle: MakeOracle = Oracle
    #: Changes of base B's config (`support.tiny.make_base`): tied head, biases, another width …
    base: dict[str, Any] = field(default_factory=dict)
    #: Largest difference of a chosen token's log-probability in float32.
    tolerance: float = 1e-4
    #: A prompt that shows the adapter, where any prompt does not do (activated LoRA).
    prompt: tuple[int, ...] | None = None
    #: Tensors of the file that the adapter does not need (copies of the base's own): may be missing, may be changed.
    optional: tuple[str, ...] = ()
    #: Tensors that may have more rows than the base: whole embeddings.
    may_grow: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.name


def all_cases() -> list[KindCase]:
    """The cases of every file in this folder."""
    modules = [import_module(f"contracts.kinds.{module.name}") for module in iter_modules(__path__)]
    return [case for module in modules for case in module.CASES]

"""Module names as trainers write them: the prefixes that PEFT and wrappers put before a module's path.

The same module of the base is called `base_model.model.model.layers.0.…` by PEFT, `model.layers.0.…` or `layers.0.…` by
those who strip it, `base_model.model.base_model.model.model.…` by those who wrap twice, and
`language_model.model.layers.…` or `model.language_model.layers.…` where the text model lay inside a larger one.
"""

from __future__ import annotations

from collections.abc import Container

_WRAPPERS = frozenset({"base_model", "model", "language_model", "text_model", "transformer", "module", "_orig_mod"})


def find_module(name: str, known: Container[str]) -> str | None:
    """The path in `known` that `name` means, or None; wrappers at the beginning do not matter, all the rest does."""
    if name in known:
        return name
    parts = name.split(".")
    rest = parts
    while rest and rest[0] in _WRAPPERS:
        rest = rest[1:]
    tail = ".".join(rest)
    for prefix in ("", "model.", "model.language_model.", "language_model.model.", "transformer.", "model.model."):
        if tail and f"{prefix}{tail}" in known:
            return f"{prefix}{tail}"
    return None

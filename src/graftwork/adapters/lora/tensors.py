"""Which stored tensor is which half of which linear site's low-rank pair."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from graftwork.adapters.folder import StoredTensor
from graftwork.adapters.outline import Outline

Part = Literal["lora_A", "lora_B"]

#: PEFT writes `base_model.model.<module>.lora_A.weight`; a raw state dict also names the adapter (`lora_A.default`).
_KEY = re.compile(r"(?P<module>.+)\.(?P<part>lora_A|lora_B)(?:\.default)?\.weight")
_WRAPPERS = ("base_model.model.", "base_model.")


@dataclass(frozen=True)
class Pair:
    """The two halves found for one site; either may be missing in a damaged file."""

    module: str
    site: int
    a: StoredTensor | None
    b: StoredTensor | None


@dataclass(frozen=True)
class Unmatched:
    tensor: StoredTensor
    reason: str


def match_tensors(tensors: Mapping[str, StoredTensor], outline: Outline) -> tuple[list[Pair], list[Unmatched]]:
    """Pair every tensor with a linear site of the base; what fits none is returned with the reason."""
    found: dict[str, dict[Part, StoredTensor]] = {}
    unmatched: list[Unmatched] = []
    for tensor in tensors.values():
        place = locate(tensor.name, outline)
        if isinstance(place, str):
            unmatched.append(Unmatched(tensor, place))
            continue
        module, part = place
        halves = found.setdefault(module, {})
        if part in halves:
            unmatched.append(Unmatched(tensor, f"{halves[part].name} already gives {part} of {module}"))
        else:
            halves[part] = tensor
    order = outline.site_of
    pairs = [Pair(name, order[name], half.get("lora_A"), half.get("lora_B")) for name, half in found.items()]
    return sorted(pairs, key=lambda pair: pair.site), unmatched


def locate(key: str, outline: Outline) -> tuple[str, Part] | str:
    """The site and half a key means, or the reason why it means none."""
    match = _KEY.fullmatch(key)
    if match is None:
        return "not a LoRA pair of a linear layer"
    module = _unwrapped(match["module"])
    part: Part = "lora_A" if match["part"] == "lora_A" else "lora_B"
    for path in (module, f"model.{module}"):
        if path in outline.site_of:
            return path, part
    if module in outline.modules or f"model.{module}" in outline.modules:
        return f"{module} is not a linear layer whose input and output a LoRA can be served on"
    return f"the base has no module {module}"


def _unwrapped(module: str) -> str:
    for wrapper in _WRAPPERS:
        while module.startswith(wrapper):
            module = module[len(wrapper) :]
    return module

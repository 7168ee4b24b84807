"""Which stored tensor is which part of which module: pairs, magnitudes, biases, whole weights, single tokens."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from graftwork.adapters.folder import StoredTensor
from graftwork.adapters.module_names import find_module
from graftwork.adapters.outline import Outline
from graftwork.adapters.whole_modules import SCORE_NAMES

Role = Literal[
    "lora_A",
    "lora_B",
    "lora_B.bias",
    "magnitude",
    "embedding_A",
    "embedding_B",
    "tokens",
    "weight",
    "base",
    "bias",
    "original",
]

#: How a key ends, in PEFT's file or in a raw state dict, where the adapter's name stands as well.
_ENDINGS: tuple[tuple[str, Role], ...] = (
    (r"lora_A(\.[^.]+)?\.weight", "lora_A"),
    (r"lora_B(\.[^.]+)?\.weight", "lora_B"),
    (r"lora_B(\.[^.]+)?\.bias", "lora_B.bias"),
    (r"lora_magnitude_vector(\.[^.]+)??(\.weight)?", "magnitude"),
    (r"lora_embedding_A(\.[^.]+)?", "embedding_A"),
    (r"lora_embedding_B(\.[^.]+)?", "embedding_B"),
    (r"token_adapter\.trainable_tokens_delta(\.[^.]+)?", "tokens"),
    (r"(token_adapter\.)?base_layer\.weight", "base"),
    (r"base_layer\.bias", "bias"),
    (r"original_module\.(weight|bias)", "original"),
    (r"(modules_to_save(\.[^.]+)?\.)?weight", "weight"),
    (r"(modules_to_save(\.[^.]+)?\.)?bias", "bias"),
)
_KEYS = tuple((re.compile(rf"(?P<module>.+?)\.{ending}"), part) for ending, part in _ENDINGS)


@dataclass(frozen=True)
class ModuleTensors:
    """Everything stored for one module of the base, or for a classification head."""

    path: str
    parts: Mapping[Role, StoredTensor]


@dataclass(frozen=True)
class Unmatched:
    """A tensor that nothing uses; harmless when it says again, or of a replaced module, what is known."""

    tensor: StoredTensor
    reason: str
    harmless: bool = False


def match_tensors(tensors: Mapping[str, StoredTensor], outline: Outline) -> tuple[list[ModuleTensors], list[Unmatched]]:
    """Every tensor by its module and part, in the base's order; what fits none is returned with the reason."""
    found: dict[str, dict[Role, StoredTensor]] = {}
    unmatched: list[Unmatched] = []
    originals: list[tuple[str, StoredTensor]] = []
    for tensor in tensors.values():
        place = locate(tensor.name, outline)
        if isinstance(place, str):
            unmatched.append(Unmatched(tensor, place))
            continue
        path, part = place
        if part == "original":
            originals.append((path, tensor))
            continue
        parts = found.setdefault(path, {})
        if part in parts:
            reason = f"{parts[part].name} already gives {part} of {path}"
            again = part in ("weight", "bias") and _says_the_same(parts[part], tensor)
            unmatched.append(Unmatched(tensor, reason, harmless=again))
        else:
            parts[part] = tensor
    for path, tensor in originals:  # where embedding and head are tied, the other one would go on with it
        replaced = "weight" in found.get(path, {}) and not (outline.tied and path not in outline.site_of)
        unmatched.append(Unmatched(tensor, f"of the base's {path}, beside what takes its place", harmless=replaced))
    return [
        ModuleTensors(path, found[path]) for path in sorted(found, key=lambda path: _order(path, outline))
    ], unmatched


def locate(key: str, outline: Outline) -> tuple[str, Role] | str:
    """The module and part that a key means, or the reason why it means none."""
    for pattern, part in _KEYS:
        if match := pattern.fullmatch(key):
            return _placed(match["module"], part, outline)
    return "no part of a LoRA has such a name"


def _placed(module: str, part: Role, outline: Outline) -> tuple[str, Role] | str:
    known = {site.path for site in (outline.embed, outline.head) if site is not None} | outline.site_of.keys()
    if (path := find_module(module, known)) is not None:
        return path, part
    if module.rpartition(".")[2] in SCORE_NAMES and part in ("weight", "bias"):
        return module.rpartition(".")[2], part
    if (path := find_module(module, frozenset(outline.modules))) is not None:
        return f"{path} is not a linear layer, embedding or head that an adapter can be served on"
    return f"the base has no module {module}"


def _says_the_same(one: StoredTensor, other: StoredTensor) -> bool:
    both = one.is_float and other.is_float and one.shape == other.shape
    return both and np.array_equal(one.float32(), other.float32())


def _order(path: str, outline: Outline) -> tuple[int, str]:
    return outline.site_of.get(path, len(outline.linears)), path

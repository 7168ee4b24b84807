"""ADAPTER_KINDS: which code serves which kind of adapter; a new kind is a new file or folder and one line here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, Protocol

from graftwork.errors import Refused

if TYPE_CHECKING:  # whoever reads the table alone needs neither numpy nor torch
    import torch

    from graftwork.adapters.folder import AdapterFolder
    from graftwork.adapters.outline import Outline
    from graftwork.adapters.serving_form import ServingForm
    from graftwork.adapters.tensor_entry import TensorEntry

#: PEFT's `peft_type`, or the word for another library's format, to the import path of the kind's class.
ADAPTER_KINDS = {
    "BOTTLENECK": "graftwork.adapters.bottleneck.kind:Bottleneck",
    "LORA": "graftwork.adapters.lora.kind:Lora",
    "IA3": "graftwork.adapters.ia3.kind:Ia3",
    "ADALORA": "graftwork.adapters.adalora.kind:Adalora",
    "LOHA": "graftwork.adapters.lycoris.loha:Loha",
    "LOKR": "graftwork.adapters.lycoris.lokr:Lokr",
    "VERA": "graftwork.adapters.vera.kind:Vera",
    "PREFIX_TUNING": "graftwork.adapters.prompt_learning.prefix:PrefixTuning",
    "PROMPT_TUNING": "graftwork.adapters.prompt_learning.prompt:PromptTuning",
    "P_TUNING": "graftwork.adapters.prompt_learning.prompt:PTuning",
}

#: What versions' kinds are called, as each class calls its own.
KIND_NAMES = tuple(sorted(key.lower().replace("_", "-") for key in ADAPTER_KINDS))

Support = Literal["served", "refused"]


class BaseWeights(Protocol):
    """The frozen weights, for kinds whose serving form depends on them; in the serving dtype, never to be changed."""

    def weight(self, path: str) -> torch.Tensor:
        """The weight [out_features, in_features] of a linear layer, or [vocab_size, hidden_size] of the embedding."""
        ...

    def bias(self, path: str) -> torch.Tensor | None:
        """The bias [out_features] of a linear layer, if it has one."""
        ...


class AdapterKind(Protocol):
    """How one kind of adapter is read, checked and made ready to serve."""

    name: str
    #: What the kind's library can write, and whether it is served; the page of kinds is made from it, and the contract
    #: suite has an adapter for every feature.
    features: Mapping[str, Support]

    def account(
        self, folder: AdapterFolder, outline: Outline, max_rank: int
    ) -> tuple[Sequence[TensorEntry], list[str], list[str]]:
        """Every tensor of the folder with its use, the problems that forbid serving it, and warnings.

        Reads no weights of the base and imports no torch. A problem names the field or the tensor and what to do.

        Raises:
            Refused: when the folder's files cannot be read at all.
        """
        ...

    def serving_form(
        self, folder: AdapterFolder, outline: Outline, dtype: torch.dtype, base: BaseWeights
    ) -> ServingForm:
        """The tensors as the engine wants them. Only called after an account without problems; in a loader thread."""
        ...


@cache
def _load(path: str) -> AdapterKind:
    module, _, name = path.partition(":")
    kind: AdapterKind = getattr(import_module(module), name)()
    return kind


def all_kinds() -> dict[str, AdapterKind]:
    """Every kind of the table by its key."""
    return {key: _load(path) for key, path in ADAPTER_KINDS.items()}


def kind_of(config: Mapping[str, Any]) -> AdapterKind:
    """The kind of the adapter with this config.

    Raises:
        Refused: when it is missing or not supported; the message lists what is.
    """
    peft_type = config.get("peft_type")
    if peft_type is None and isinstance(config.get("config"), Mapping) and "model_type" in config:
        peft_type = "BOTTLENECK"  # the `adapters` library's format; of its methods, this kind refuses the others
    known = ", ".join(sorted(ADAPTER_KINDS))
    if not isinstance(peft_type, str):
        raise Refused(f"adapter_config.json: peft_type is {str(peft_type)[:80]!r}; it must name one of {known}.")
    if peft_type not in ADAPTER_KINDS:
        raise Refused(f"adapter_config.json: peft_type {peft_type[:80]!r} is not supported; supported: {known}.")
    return _load(ADAPTER_KINDS[peft_type])

"""ADAPTER_KINDS: which code serves which PEFT type; a new kind is a new file or folder and one line here."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

from graftwork.adapters.folder import AdapterFolder
from graftwork.adapters.outline import Outline
from graftwork.adapters.tensor_entry import TensorEntry
from graftwork.errors import Refused

if TYPE_CHECKING:
    import torch

    from graftwork.adapters.serving_form import ServingForm

#: PEFT's `peft_type` to the import path of the kind's class.
ADAPTER_KINDS = {
    "LORA": "graftwork.adapters.lora.kind:Lora",
}


class AdapterKind(Protocol):
    """How one kind of adapter is read, checked and made ready to serve."""

    name: str

    def account(
        self, folder: AdapterFolder, outline: Outline, max_rank: int
    ) -> tuple[Sequence[TensorEntry], list[str], list[str]]:
        """Every tensor of the folder with its use, the problems that forbid serving it, and warnings.

        Reads no weights of the base and imports no torch.

        Raises:
            Refused: when the folder's files cannot be read at all.
        """
        ...

    def serving_form(self, folder: AdapterFolder, outline: Outline, dtype: torch.dtype) -> ServingForm:
        """The tensors as the kernels want them, scale folded in. Only called after an account without problems."""
        ...


@cache
def _load(path: str) -> AdapterKind:
    module, _, name = path.partition(":")
    kind: AdapterKind = getattr(import_module(module), name)()
    return kind


def kind_named(peft_type: object) -> AdapterKind:
    """The kind for a config's `peft_type`.

    Raises:
        Refused: when it is missing or not supported; the message lists what is.
    """
    known = ", ".join(sorted(ADAPTER_KINDS))
    if not isinstance(peft_type, str):
        raise Refused(f"adapter_config.json: peft_type is {peft_type!r}; it must name one of {known}.")
    if peft_type not in ADAPTER_KINDS:
        raise Refused(f"adapter_config.json: peft_type {peft_type!r} is not supported; supported: {known}.")
    return _load(ADAPTER_KINDS[peft_type])

"""Reads `torch.save`'s files as data: through torch's weights-only loader, and only if they ask for tensors alone.

A pickle is a program. Before torch sees the file, every name that it would call is listed without running it, and
anything but the few that rebuild plain tensors is refused by that name.
Format: https://docs.pytorch.org/docs/stable/notes/serialization.html
"""

from __future__ import annotations

import pickletools
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from graftwork.adapters.files.stored_tensor import StoredTensor
from graftwork.errors import Refused

if TYPE_CHECKING:
    import torch

_ZIP_MARK = b"PK\x03\x04"
#: Enough for twenty thousand tensors; the values lie behind it.
_MAX_PROGRAM_BYTES = 8 << 20
#: A file older than torch 1.6 holds five pickles, and then the values.
_LEGACY_PICKLES = 5
_REBUILDERS = {"_rebuild_tensor", "_rebuild_tensor_v2", "_rebuild_tensor_v3", "_rebuild_parameter"}
_WORDS = {
    "float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "int64": "I64", "int32": "I32",
    "int16": "I16", "int8": "I8", "uint8": "U8", "bool": "BOOL",
}  # fmt: skip


@dataclass(frozen=True)
class PickledTensor(StoredTensor):
    """A plain tensor on a map of the file; it may be a transposed view, or share its storage with another."""

    values: torch.Tensor

    def float32(self) -> npt.NDArray[np.float32]:
        import torch

        copy = np.empty(self.shape, np.float32)
        torch.from_numpy(copy).copy_(self.values)
        return copy

    def raw(self) -> memoryview:
        import torch

        return self.values.reshape(-1).view(torch.uint8).numpy().data


def read_pickled(file: Path) -> Iterator[PickledTensor]:
    """Every tensor of a state dict.

    Raises:
        Refused: when it would run code, is damaged, or holds anything but plain tensors by name.
    """
    try:
        zipped = _check_program(file)
        content = _load(file, mmap=zipped)
    except Refused:
        raise
    except Exception as error:  # on damaged bytes zipfile, pickletools and torch raise anything
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise Refused(f"{file.name} is not a whole torch file: {reason[:200]} Copy or save it again.") from error
    if not isinstance(content, Mapping):
        raise Refused(f"{file.name} must hold a state dict, tensors by name, not {type(content).__name__}.")
    for name, value in content.items():
        if not isinstance(name, str):
            raise Refused(f"{file.name}: the key {str(name)[:80]!r} is no name of a tensor.")
        yield _plain(file, name, value)


def _load(file: Path, *, mmap: bool) -> object:
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's, about its own old storages
        return torch.load(str(file), map_location="cpu", weights_only=True, mmap=mmap)


def _plain(file: Path, name: str, value: Any) -> PickledTensor:
    import torch

    if not isinstance(value, torch.Tensor):
        hint = " Save that dict by itself." if isinstance(value, Mapping) else ""
        raise Refused(f"{file.name}: {name[:200]} is not a tensor but of type {type(value).__name__}.{hint}")
    value = value.detach()
    if value.layout != torch.strided or value.is_quantized or value.device.type != "cpu":
        raise Refused(f"{file.name}: {name[:200]} is sparse, quantised or without values; save it as a plain tensor.")
    nbytes = value.numel() * value.element_size()
    if nbytes > value.untyped_storage().nbytes():
        raise Refused(f"{file.name}: {name[:200]} repeats its values (an expanded view); save a contiguous copy.")
    dtype = str(value.dtype).removeprefix("torch.")
    return PickledTensor(name, _WORDS.get(dtype, dtype), tuple(value.shape), nbytes, value)


def _check_program(file: Path) -> bool:
    """Refuse a pickle that names anything but tensors; whether the file is a zip archive."""
    with file.open("rb") as stream:
        if stream.read(len(_ZIP_MARK)) != _ZIP_MARK:
            stream.seek(0)
            for _ in range(_LEGACY_PICKLES):
                _check_names(file, pickletools.genops(stream))
            return False
    with zipfile.ZipFile(file) as archive:
        for record in archive.infolist():
            if (
                record.compress_type != zipfile.ZIP_STORED
            ):  # torch would map the compressed bytes as if they were values
                raise Refused(f"{file.name} is a compressed archive, which torch.save never writes.")
        programs = [record for record in archive.infolist() if record.filename.endswith("data.pkl")]
        if len(programs) != 1 or programs[0].file_size > _MAX_PROGRAM_BYTES:
            raise Refused(f"{file.name} is a zip archive, but not one that torch.save writes.")
        _check_names(file, pickletools.genops(archive.read(programs[0])))
    return True


def _check_names(file: Path, program: Iterator[tuple[pickletools.OpcodeInfo, Any, int | None]]) -> None:
    for opcode, argument, position in program:
        if (position or 0) > _MAX_PROGRAM_BYTES:
            raise Refused(f"{file.name} is a pickle of more than {_MAX_PROGRAM_BYTES} bytes, beside its values.")
        if opcode.name in ("GLOBAL", "INST"):
            module, _, name = str(argument).partition(" ")
            if not _rebuilds_tensors(module, name):
                raise Refused(
                    f"{file.name} is a pickle that would call {f'{module}.{name}'[:200]}, which plain weights do "
                    "not need. It was not run. Save the adapter with safe_serialization=True."
                )
        elif opcode.name in ("STACK_GLOBAL", "EXT1", "EXT2", "EXT4"):
            raise Refused(f"{file.name} is a pickle that looks names up as it runs, which plain weights do not need.")


def _rebuilds_tensors(module: str, name: str) -> bool:
    return (
        (module, name) == ("collections", "OrderedDict")
        or (module == "torch._utils" and name in _REBUILDERS)
        or (module in ("torch", "torch.storage") and name.endswith("Storage"))
        or (module == "torch" and name.startswith("float8"))  # refused later, by the tensor's name
    )

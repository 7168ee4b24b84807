"""AdapterFolder: a fine-tune as PEFT saves it, read without torch and without trusting a byte of it.

Format: https://huggingface.co/docs/peft/developer_guides/checkpoint and https://huggingface.co/docs/safetensors
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open

from graftwork.errors import Refused

CONFIG_NAME = "adapter_config.json"
WEIGHTS_NAME = "adapter_model.safetensors"
#: PEFT's name, and that of the `adapters` library.
_WEIGHTS_NAMES = (WEIGHTS_NAME, "adapter.safetensors")
_PICKLES = ("adapter_model.bin", "adapter_model.pt", "pytorch_adapter.bin")
_MAX_CONFIG_BYTES = 1 << 20
_LFS_MARK = b"version https://git-lfs"


_FLOATS = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}


@dataclass(frozen=True)
class StoredTensor:
    """One tensor of the file: `dtype` is safetensors' word (`F32`, `BF16`, …), its bytes lie at `offset` of `file`."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    nbytes: int
    file: Path
    offset: int

    @property
    def is_float(self) -> bool:
        return self.dtype in _FLOATS

    def float32(self) -> npt.NDArray[np.float32]:
        """A copy of the values in float32; F64 beyond its range becomes infinite, which the account then finds."""
        if not self.nbytes:
            return np.zeros(self.shape, np.float32)
        stored = np.memmap(self.file, _FLOATS[self.dtype], mode="r", offset=self.offset, shape=self.shape)
        if self.dtype == "BF16":
            return (stored.astype(np.uint32) << np.uint32(16)).view(np.float32)
        with np.errstate(over="ignore", invalid="ignore"):
            return np.array(stored, np.float32)


@dataclass(frozen=True)
class AdapterFolder:
    """The config and the weights file of one adapter; values are read one tensor at a time, when they are asked for."""

    path: Path
    config: Mapping[str, Any]

    @classmethod
    def open(cls, path: Path) -> AdapterFolder:
        """Read the config.

        Raises:
            Refused: naming the file and what is wrong with it.
        """
        if not path.is_dir():
            raise Refused(f"{path} is not a folder; an adapter is a folder as PEFT's save_pretrained writes it.")
        return cls(path, _read_config(path / CONFIG_NAME))

    @cached_property
    def tensors(self) -> Mapping[str, StoredTensor]:
        """Every tensor of the weights file, by name.

        Raises:
            Refused: when the file is missing, truncated, not safetensors, or a pickle.
        """
        there = [self.path / name for name in _WEIGHTS_NAMES if (self.path / name).is_file()]
        file = there[0] if there else self.path / WEIGHTS_NAME
        if not there:
            pickles = [name for name in _PICKLES if (self.path / name).exists()]
            if pickles:
                raise Refused(
                    f"{pickles[0]} is a pickle, which can run code and is not read. Save the adapter with "
                    f"safe_serialization=True to get {WEIGHTS_NAME}."
                )
            raise Refused(f"{WEIGHTS_NAME} is missing from the adapter folder.")
        return read_weights(file)


def read_weights(file: Path) -> Mapping[str, StoredTensor]:
    """Every tensor of one file, by name.

    Raises:
        Refused: when it is truncated, damaged, or not safetensors.
    """
    _check_whole(file)
    return {tensor.name: tensor for tensor in sorted(_stored_tensors(file), key=lambda tensor: tensor.name)}


def _stored_tensors(file: Path) -> Iterator[StoredTensor]:
    """The header's entries; `_check_whole` has made sure that they lie inside the file and do not overlap."""
    with file.open("rb") as stream:
        size = int.from_bytes(stream.read(8), "little")
        header = json.loads(stream.read(size))
    for name, info in header.items():
        if name != "__metadata__":
            begin, end = info["data_offsets"]
            yield StoredTensor(name, info["dtype"], tuple(info["shape"]), end - begin, file, 8 + size + begin)


def _read_config(file: Path) -> Mapping[str, Any]:
    if not file.is_file():
        raise Refused(f"{CONFIG_NAME} is missing from the adapter folder; PEFT's save_pretrained writes it.")
    if file.stat().st_size > _MAX_CONFIG_BYTES:
        raise Refused(f"{CONFIG_NAME} is larger than {_MAX_CONFIG_BYTES} bytes.")
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise Refused(f"{CONFIG_NAME} cannot be read as JSON: {error}") from error
    if not isinstance(config, dict):
        raise Refused(f"{CONFIG_NAME} must hold a JSON object, not {type(config).__name__}.")
    return config


def _check_whole(file: Path) -> None:
    size = file.stat().st_size
    with file.open("rb") as stream:
        head = stream.read(len(_LFS_MARK))
    if head == _LFS_MARK:
        raise Refused(f"{file.name} is a Git LFS pointer, not the weights. Run `git lfs pull` and push again.")
    try:
        with safe_open(file, framework="numpy"):
            pass
    except (SafetensorError, OSError, ValueError) as error:
        raise Refused(
            f"{file.name} ({size} bytes) is not a whole safetensors file: {error}. Copy or save it again."
        ) from error

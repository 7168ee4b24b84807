"""Reads a safetensors file: its header at once, each tensor's values when they are asked for.

Format: https://huggingface.co/docs/safetensors
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open

from graftwork.adapters.files.stored_tensor import StoredTensor
from graftwork.errors import Refused

_STORED_AS = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}


@dataclass(frozen=True)
class FileTensor(StoredTensor):
    """Its bytes lie at `offset` of `file`, in rows."""

    file: Path
    offset: int

    def float32(self) -> npt.NDArray[np.float32]:
        if not self.nbytes:
            return np.zeros(self.shape, np.float32)
        stored = np.fromfile(self.file, _STORED_AS[self.dtype], prod(self.shape), offset=self.offset).reshape(
            self.shape
        )
        if self.dtype == "BF16":
            return (stored.astype(np.uint32) << np.uint32(16)).view(np.float32)
        with np.errstate(over="ignore", invalid="ignore"):
            return np.array(stored, np.float32)

    def raw(self) -> memoryview:
        return np.fromfile(self.file, np.uint8, self.nbytes, offset=self.offset).data


def read_safetensors(file: Path) -> Iterator[FileTensor]:
    """Every tensor of the file.

    Raises:
        Refused: when it is truncated, damaged, or something else.
    """
    try:
        with safe_open(file, framework="numpy"):  # checks that all entries lie inside the file and do not overlap
            pass
    except (SafetensorError, OSError, ValueError) as error:
        raise Refused(
            f"{file.name} ({file.stat().st_size} bytes) is not a whole safetensors file: {error}. "
            "Copy or save it again."
        ) from error
    with file.open("rb") as stream:
        size = int.from_bytes(stream.read(8), "little")
        header = json.loads(stream.read(size))
    for name, info in header.items():
        if name != "__metadata__":
            begin, end = info["data_offsets"]
            yield FileTensor(name, info["dtype"], tuple(info["shape"]), end - begin, file, 8 + size + begin)

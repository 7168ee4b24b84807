"""StoredTensor: a tensor of an adapter's file whose values are read when they are asked for, whatever the format."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

#: The dtypes that weights come in, in safetensors' words; float8 needs a scale that no adapter format defines.
FLOATS = frozenset({"F64", "F32", "F16", "BF16"})


@dataclass(frozen=True)
class StoredTensor:
    """One tensor by its name; `dtype` is safetensors' word (`F32`, `BF16`, …), `nbytes` those of its values."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    nbytes: int

    @property
    def is_float(self) -> bool:
        return self.dtype in FLOATS

    def float32(self) -> npt.NDArray[np.float32]:
        """A copy of the values in float32; F64 beyond its range becomes infinite, which the account then finds."""
        raise NotImplementedError

    def raw(self) -> memoryview:
        """The stored bytes, little-endian, in rows."""
        raise NotImplementedError

"""PackedRows: rows of a frozen matrix read out of the matmul library's layout, so that no plain copy need be kept.

A tied embedding is the head's weight: the head multiplies its packed form, and here the embedding reads the same one.
"""

from __future__ import annotations

import ctypes
from typing import Any

import torch
from torch import Tensor

#: Rows that are compared with the plain matrix at a time.
_ROWS = 4096
#: Rows of the matrices that are packed to learn the layout: a multiple of twice any block of rows.
_SAMPLE = 2048


class PackedRows:
    """Rows of W [rows, columns], bit for bit, from its packed form.

    oneDNN's blocked layouts are separable: element (r, c) lies at `row[r] + column[c]`, and blocks of rows follow one
    another. Which numbers these are is found by packing small matrices whose elements name their own row or column,
    and proved against W itself.
    """

    def __init__(self, flat: Tensor, rows: Tensor, columns: Tensor) -> None:
        self._flat = flat  # the packed matrix's memory
        self._rows, self._columns = rows, columns

    @classmethod
    def of(cls, packed: Tensor) -> PackedRows | None:
        """The rows of a packed matrix; None when its layout cannot be read. Unpacks it once, to compare."""
        if not all(hasattr(torch.ops.mkldnn, name) for name in ("data_ptr", "_nbytes")):
            return None
        count, width = packed.shape
        rows, columns = (_places((min(count, _SAMPLE), width), packed.dtype, axis) for axis in (0, 1))
        if rows is None or columns is None:
            return None
        if count > _SAMPLE:
            half = _SAMPLE // 2
            number = torch.arange(count)
            rows = rows[number % half] + number // half * (rows[half] - rows[0])
        made = cls(_memory(packed), rows, columns - columns[0])
        inside = int(made._rows.max() + made._columns.max()) < len(made._flat)
        return made if inside and made._gives(packed.to_dense()) else None

    def _gives(self, weight: Tensor) -> bool:
        some = torch.arange(len(weight)).split_with_sizes([_ROWS] * (len(weight) // _ROWS) + [len(weight) % _ROWS])
        return all(torch.equal(_bits(self.gather(rows)), _bits(weight[rows])) for rows in some)

    def gather(self, rows: Tensor) -> Tensor:
        """Some rows [n, columns], by their numbers [n] int64."""
        return self._flat.take(self._rows[rows][:, None] + self._columns)


def _places(shape: tuple[int, int], dtype: torch.dtype, axis: int) -> Tensor | None:
    """Where in packed memory the first element of each row lies (axis 0), or each element of the first row (axis 1)."""
    probe = torch.zeros(shape, dtype=dtype)
    line = probe[:, 0] if axis == 0 else probe[0]
    own = torch.arange(len(line))
    numbers = torch.zeros_like(own)
    for shift in range(
        0, max(1, len(line).bit_length()), 8
    ):  # a byte at a time: bfloat16 holds no larger whole numbers
        line.copy_((own >> shift & 255) + 1)
        flat = _memory(torch.ops.mkldnn._reorder_linear_weight(probe, None))
        places = flat.nonzero()[:, 0]
        if len(places) != len(own):
            return None
        numbers += (flat[places].long() - 1) << shift
    if not torch.equal(numbers.sort().values, own):
        return None
    return torch.empty_like(own).index_put_((numbers,), places)


def _memory(packed: Tensor) -> Tensor:
    """The packed matrix's own memory as a flat tensor: a view, which keeps it alive."""
    ops = torch.ops.mkldnn
    raw: Any = (ctypes.c_char * ops._nbytes(packed)).from_address(ops.data_ptr(packed))
    raw.owner = packed  # the tensor refers to `raw` for as long as it lives
    return torch.frombuffer(raw, dtype=packed.dtype)


def _bits(values: Tensor) -> Tensor:
    return values.view(torch.int32 if values.itemsize == 4 else torch.int16)

"""FormImage: a serving form as it lies in memory, one stretch of bytes and where in it each tensor begins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from graftwork.adapters.serving_form import Part, ServingForm, Traits, Weights

#: The vectors of an Affine, which are also the names of the tables of where they lie.
VECTORS = ("scale_in", "scale_out", "shift")
#: Every tensor begins at a multiple of it, in bytes: a cache line, which is also what wider dtypes need.
ALIGN = 64

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Piece:
    """A matrix of a part within the bytes of an image."""

    offset: int
    shape: tuple[int, int]
    dtype: torch.dtype

    def within(self, data: Tensor) -> Tensor:
        """The matrix in `data` [bytes]: a view."""
        size = self.shape[0] * self.shape[1] * self.dtype.itemsize
        return data[self.offset : self.offset + size].view(self.dtype).view(self.shape)


@dataclass(frozen=True)
class FormImage:
    """Everything that one adapter version does. Offsets are in bytes, from the beginning of `data`."""

    data: Tensor  # [bytes] uint8
    dtype: torch.dtype  # of the low-rank slices
    slices: Numbers  # [4, slices]: site, rank, where A [rank, in] begins, where B transposed [rank, out] begins
    vectors: Mapping[str, Numbers]  # for each of VECTORS [2, vectors]: site, where it begins; in float32
    pieces: tuple[Piece, ...]
    parts: tuple[tuple[Part, Mapping[str, int]], ...]  # with the piece of each of its weights
    traits: Traits

    @property
    def has_vectors(self) -> bool:
        return any(self.vectors[name].size for name in VECTORS)


def image_of(form: ServingForm, dtype: torch.dtype) -> FormImage:
    """The image of a form whose slices are in `dtype`; weights that several parts share are in it once."""
    writer = _Writer()
    slices = [(low.site, low.rank, writer.put(low.a), writer.put(low.b)) for low in form.slices]
    assert all(half.dtype == dtype for low in form.slices for half in (low.a, low.b)), "slices are in the serving dtype"
    vectors = {
        name: _columns(
            [(one.site, writer.put(given)) for one in form.affines if (given := getattr(one, name)) is not None], 2
        )
        for name in VECTORS
    }
    shared = {id(weights): weights for part in form.parts for weights in part.weights().values()}
    numbers = {key: number for number, key in enumerate(shared)}
    pieces = tuple(Piece(writer.put(one.matrix), one.shape, one.matrix.dtype) for one in shared.values())
    parts = tuple((part, {name: numbers[id(one)] for name, one in part.weights().items()}) for part in form.parts)
    return FormImage(writer.data(), dtype, _columns(slices, 4), vectors, pieces, parts, form.traits)


def weights_within(data: Tensor, pieces: Sequence[Piece]) -> list[Weights]:
    """The weights of all pieces, as views of `data` [bytes]."""
    return [Weights(piece.within(data)) for piece in pieces]


def _columns(rows: Sequence[tuple[int, ...]], width: int) -> Numbers:
    return np.array(rows, np.int64).reshape(-1, width).T.copy()


class _Writer:
    """Says where each tensor goes, then writes them all."""

    def __init__(self) -> None:
        self._tensors: list[tuple[int, Tensor]] = []
        self._size = 0

    def put(self, tensor: Tensor) -> int:
        begin, self._size = self._size, -(-(self._size + tensor.nbytes) // ALIGN) * ALIGN
        self._tensors.append((begin, tensor))
        return begin

    def data(self) -> Tensor:
        data = torch.zeros(self._size, dtype=torch.uint8)
        for begin, tensor in self._tensors:
            data[begin : begin + tensor.nbytes].view(tensor.dtype).view(tensor.shape).copy_(tensor)
        return data

"""Page layout: where the tensors of a serving form go in the pages that an adapter gets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from graftwork.adapters.serving_form import Affine, Part, ServingForm, Weights
from graftwork.errors import Refused

#: The vectors of an Affine, which are also the names of the tables of where they lie.
VECTORS = ("scale_in", "scale_out", "shift")


@dataclass(frozen=True)
class Piece:
    """A tensor to place: `rows` of so many pool elements each; split between pages only at a row, and if it may be."""

    tensor: torch.Tensor
    rows: int
    row_elements: int


@dataclass(frozen=True)
class Spot:
    """Where some rows of a piece go: a page of this adapter, by number, and the place within it."""

    page: int
    within: int
    rows: slice


def pieces_of(form: ServingForm, itemsize: int) -> Iterator[Piece]:
    """Every tensor of a form, in the order in which they are placed."""
    for low in form.slices:
        for half in (low.a, low.b):
            yield Piece(half, 1, half.numel())
    for affine in form.affines:
        for vector in vectors_of(affine).values():
            yield Piece(vector, 1, vector.numel() * vector.itemsize // itemsize)
    for weights in distinct_weights(form.parts):
        tensor = weights.whole()
        assert tensor.itemsize % itemsize == 0, "a part keeps its weights in the serving dtype or a wider one"
        yield Piece(tensor, tensor.shape[0], tensor.shape[1] * tensor.itemsize // itemsize)


def distinct_weights(parts: Sequence[Part]) -> list[Weights]:
    """The weights of all parts; an object that several parts share is kept once."""
    return list({id(weights): weights for part in parts for weights in part.weights().values()}.values())


def vectors_of(affine: Affine) -> dict[str, torch.Tensor]:
    return {name: value for name in VECTORS if (value := getattr(affine, name)) is not None}


def layout(pieces: Sequence[Piece], page_elements: int, align: int) -> tuple[list[list[Spot]], int]:
    """For each piece where its rows go, and the number of pages; a page is filled before the next begins.

    Raises:
        Refused: when a single row is longer than a page.
    """
    spots: list[list[Spot]] = []
    page, within = 0, 0
    for piece in pieces:
        if piece.row_elements > page_elements:
            raise Refused(
                f"A matrix of the adapter has {piece.row_elements} elements in one piece; a page of adapter memory "
                f"holds {page_elements}. Raise max_rank to serve it."
            )
        found: list[Spot] = []
        per_page = max(1, page_elements // max(1, piece.row_elements))
        if piece.rows > 1 and piece.rows > per_page:  # so that all chunks but the last are equally long
            page, within = (page + 1, 0) if within else (page, 0)
        for begin in range(0, piece.rows, per_page):
            count = min(per_page, piece.rows - begin)
            if within + count * piece.row_elements > page_elements:
                page, within = page + 1, 0
            found.append(Spot(page, within, slice(begin, begin + count)))
            within = -(-(within + count * piece.row_elements) // align) * align
        spots.append(found)
    return spots, page + 1

"""act_in_tiles: a part on a fixed number of tokens at a time, so that a token's bits do not depend on the others."""

from __future__ import annotations

import torch
from torch import Tensor

from graftwork.adapters.serving_form import Part

#: Tokens of a tile.
TILE = 16


def act_in_tiles(part: Part, x: Tensor, y: Tensor, first: int) -> None:
    """As `part.act`, always on TILE tokens, of which the one at position p of its row is number p % TILE.

    So every matmul of a part has one shape and a token one place in it, however its prompt was cut; the places of
    tokens that are not there hold zeros.
    """
    for begin in range(-(first % TILE), len(x), TILE):
        here = slice(max(begin, 0), min(begin + TILE, len(x)))
        there = slice(here.start - begin, here.stop - begin)
        tile_x, tile_y = _tile(x[here], there), _tile(y[here], there)
        part.act(tile_x, tile_y, first + begin)
        y[here] = tile_y[there]
        if part.site.place == "keys":
            x[here] = tile_x[there]


def _tile(tokens: Tensor, there: slice) -> Tensor:
    tile = torch.zeros(TILE, *tokens.shape[1:], dtype=tokens.dtype, device=tokens.device)
    tile[there] = tokens
    return tile

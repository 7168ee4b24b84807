"""SteadyLinear: a packed product that gives each row the same bits, whatever rows are beside it.

NOTE: A matmul library chooses by the number of rows how it cuts a product, and another cut may add up in another order
("batch invariance": https://thinkingmachines.ai/blog/defeating-nondeterminism-in-llm-inference/). Which numbers of rows
agree depends on library, processor and shape, so it is tried, not assumed: rows are computed in tiles of TILE, or
filled up to a number that was seen to give all rows, at any place, the bits that they have in such tiles.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from graftwork.errors import Refused
from graftwork.kernels.huge_pages import HugePages
from graftwork.kernels.linear import PackedLinear
from graftwork.kernels.pairs_cpu import can_pair

#: Rows of the tile that all others are compared with.
TILE = 16
_FEW = (2, 4, 8)  # what fewer rows than a tile are filled up to
_FINE, _FINE_UP_TO = 4, 64  # more are filled up to a multiple of 4, and above 64 to one of TILE
_COMPARED = 1 << 16  # least elements of the outputs that are compared: few of them show another order in bfloat16

#: For a number of threads and of rows, how many rows are computed at a time.
Sizes = dict[tuple[int, int], int]


class SteadyProducts:
    """Makes steady products: our own kernel's, else `SteadyLinear`s; those of a shape share what is found out of it."""

    def __init__(self) -> None:
        self._found: dict[tuple[object, ...], Sizes] = {}
        self._memory = HugePages()

    def __call__(self, weight: Tensor, bias: Tensor | None) -> PackedLinear:
        if can_pair(weight):  # each sum in the order of its inputs: steady as it is
            return PackedLinear(weight, bias, memory=self._memory)
        key = (weight.shape, weight.dtype, bias is None)
        return SteadyLinear(weight, bias, self._found.setdefault(key, {}))


class SteadyLinear(PackedLinear):
    """As `PackedLinear`, a little slower.

    Args:
        sizes: filled in as they are met.

    Raises:
        Refused: where even in tiles of one size a row's place in the tile changes its bits; also when it is called with
            another number of threads than before, for which that is so.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None, sizes: Sizes) -> None:
        super().__init__(weight, bias)
        self._sizes = sizes
        self._check_tile(torch.get_num_threads())

    def __call__(self, x: Tensor) -> Tensor:
        rows, product = len(x), super().__call__
        size = self._sizes.get((torch.get_num_threads(), rows)) or self._find(rows)
        missing = -rows % size
        filled = F.pad(x, (0, 0, 0, missing)) if missing else x
        if len(filled) <= size:
            return product(filled)[:rows]
        return torch.cat([product(tile) for tile in _cut(filled, size)])[:rows]

    def _find(self, rows: int) -> int:
        threads = torch.get_num_threads()
        self._check_tile(threads)
        size = next(size for size in _candidates(rows) if size == TILE or self._agrees(size))
        self._sizes[threads, rows] = size
        return size

    def _check_tile(self, threads: int) -> None:
        if (threads, TILE) in self._sizes:
            return
        if not self._agrees(TILE):
            raise Refused(
                f"The deterministic mode cannot be had here: products of {self.in_features} by {self.out_features} "
                "in this machine's matmul library depend on a row's place. Serve without `deterministic`."
            )
        self._sizes[threads, TILE] = TILE

    def _agrees(self, size: int) -> bool:
        """Whether rows of random numbers have the same bits `size` at a time, in another order, as in tiles."""
        product = super().__call__
        draw = torch.Generator().manual_seed(size)
        tiles = -(-max(size, _COMPARED // self.out_features) // TILE)
        x = torch.randn(tiles * TILE, self.in_features, generator=draw).to(self.dtype)
        want = torch.cat([product(tile) for tile in _cut(x, TILE)])
        order = torch.randperm(len(x), generator=draw)
        order = torch.cat([order, order[: -len(order) % size]])
        return all(torch.equal(product(x[some]), want[some]) for some in _cut(order, size))


def _cut(rows: Tensor, size: int) -> Iterable[Tensor]:
    return torch.split(rows, size)


def _candidates(rows: int) -> Iterator[int]:
    """Numbers of rows to compute so many at a time, best first; TILE is the last."""
    if rows <= TILE:
        yield from (few for few in _FEW if few >= rows)
    else:
        step = _FINE if rows <= _FINE_UP_TO else TILE
        yield -(-rows // step) * step
    yield TILE

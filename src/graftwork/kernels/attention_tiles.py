"""The inner loop of attention: products with panels of pairs, in vector registers or, of bfloat16, in matrix registers.

NOTE: Both multiply weights [lines, 2 pairs] by panels [panels, pairs, columns, 2] to sums [lines, panels columns]: the
queries of lines by a page's keys, then their scores by its values. A line's sums have the same bits whatever lines are
beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from graftwork.kernels.jit import FLOAT32, Elements, array_at, intrinsic, jit, widen
from graftwork.kernels.matrix_tiles import BLOCK, load_tile, multiply_tiles, shape, store_tile
from graftwork.kernels.vectors import (
    CACHE_LINE,
    F32,
    INTEGERS,
    LANES,
    VECTOR,
    accumulate,
    constant,
    i64,
    load,
    place_of,
    prefetch,
    size_of,
    slot,
    splat,
    store,
)

_SUMS, _WEIGHTS, _ROWS = (0, 1, 2, 3), 4, (5, 6, 7)  # registers
#: Tokens whose values a product takes at once: pairs here, and what a matrix register holds.
VECTOR_TOKENS, MATRIX_TOKENS = 2, 2 * BLOCK
#: More lines than there are that `add_in_matrices` may touch.
SPARE_LINES = BLOCK


@jit
def add_in_vectors(
    weights_at: int,
    weights_line: int,
    panels_at: int,
    panel_bytes: int,
    panels: int,
    columns: int,
    pairs: int,
    out_at: int,
    out_line: int,
    lines: int,
    ahead: int,
    _room: int,
    like: Elements,
) -> None:
    """out[g, columns p + c] += Σ weights[g, 2 r + i] panel[p][r, c, i] over r < pairs, i < 2, for g < lines.

    Weights and sums are float32. All are addresses; `weights_line` and `out_line` are the bytes from one line to the
    next, `panel_bytes` from one panel to the next. While a row is read, what lies `ahead` bytes after it is fetched
    into the cache, for the next call.
    """
    row_bytes = 2 * columns * like.itemsize
    g = 0
    while g < lines:
        left = min(lines - g, 4)
        w, o = weights_at + g * weights_line, out_at + g * out_line
        p = 0
        while p < panels:
            rows, out = panels_at + p * panel_bytes, o + p * columns * 4
            if columns == LANES and panels - p >= 4:
                if left == 4:
                    _sum_4x4(w, weights_line, rows, panel_bytes, pairs, out, out_line, ahead, like)
                elif left == 3:
                    _sum_3x4(w, weights_line, rows, panel_bytes, pairs, out, out_line, ahead, like)
                elif left == 2:
                    _sum_2x4(w, weights_line, rows, panel_bytes, pairs, out, out_line, ahead, like)
                else:
                    _sum_1x4(w, weights_line, rows, panel_bytes, pairs, out, out_line, ahead, like)
                p += 4
                continue
            for one in range(left):
                at, to = w + one * weights_line, out + one * out_line
                if columns == LANES:
                    _sum_1x1(at, weights_line, rows, panel_bytes, pairs, to, out_line, ahead, like)
                    continue
                weights, sums = array_at(at, 2 * pairs, FLOAT32), array_at(to, columns, FLOAT32)
                for r in range(pairs):
                    row = array_at(rows + r * row_bytes, 2 * columns, like)
                    for c in range(columns):
                        sums[c] += weights[2 * r] * widen(row[2 * c])
                        sums[c] += weights[2 * r + 1] * widen(row[2 * c + 1])
            p += 1
        g += 4


@jit
def stay(_room: int) -> None:
    """As `matrix_tiles.leave`: of vectors nothing is left."""


@jit
def add_in_matrices(
    weights_at: int,
    weights_line: int,
    panels_at: int,
    panel_bytes: int,
    panels: int,
    _columns: int,
    pairs: int,
    out_at: int,
    out_line: int,
    lines: int,
    ahead: int,
    room: int,
    _like: Elements,
) -> None:
    """As `add_in_vectors`, for bfloat16 weights and panels of 16 columns, a multiple of 16 pairs.

    There is room for weights and sums of SPARE_LINES more lines, which hold anything. `room` is the thread's own, zero
    before its first call.
    """
    blocks = (lines + BLOCK - 1) // BLOCK
    count = (lines + blocks - 1) // blocks
    shape(count * 0x101010101 + BLOCK * 0x101010000000000, room)
    for block in range(blocks):
        w, o = weights_at + block * count * weights_line, out_at + block * count * out_line
        p = 0
        while p < panels:
            rows, out = panels_at + p * panel_bytes, o + p * LANES * 4
            if panels - p >= 4:
                _multiply_4(w, weights_line, rows, panel_bytes, pairs, out, out_line, ahead)
                p += 4
            else:
                _multiply_1(w, weights_line, rows, panel_bytes, pairs, out, out_line, ahead)
                p += 1


def _summing(lines: int, vectors: int) -> Callable[..., Any]:
    """So many panels of 16 columns for so many lines: one tile of `add_in_vectors`."""

    def tile(_context: Any, weights: Any, weights_line: Any, panels: Any, panel_bytes: Any, pairs: Any, out: Any,
             out_line: Any, ahead: Any, like: Any) -> Any:  # fmt: skip
        def generate(_: Any, builder: Any, __: Any, args: Any) -> Any:
            weights, weights_line, panels, panel_bytes, pairs, out, out_line, ahead, _like = args
            places = [
                [place_of(builder, out, out_line, g, 4 * LANES * v) for v in range(vectors)] for g in range(lines)
            ]
            sums = [[slot(builder) for _ in range(vectors)] for _ in range(lines)]
            for g in range(lines):
                for v in range(vectors):
                    builder.store(load(builder, places[g][v], VECTOR, 4), sums[g][v])
            with cgutils.for_range(builder, pairs) as loop:
                width = 2 * LANES * size_of(like)
                row = builder.add(panels, builder.mul(loop.index, i64(width)))
                rows = [place_of(builder, row, panel_bytes, v, 0) for v in range(vectors)]
                for one in rows:
                    for line in range(0, width, CACHE_LINE):
                        prefetch(builder, builder.add(one, builder.add(ahead, i64(line))))
                beyond = builder.shl(loop.index, i64(3))
                both = [
                    [
                        splat(builder, load(builder, builder.add(beyond, place), F32, 4))
                        for place in (place_of(builder, weights, weights_line, g, at) for at in (0, 4))
                    ]
                    for g in range(lines)
                ]
                for v in range(vectors):
                    halves = _halves(builder, rows[v], like)
                    for g in range(lines):
                        for weight, half in zip(both[g], halves, strict=True):
                            accumulate(builder, sums[g][v], weight, half)
            for g in range(lines):
                for v in range(vectors):
                    store(builder, builder.load(sums[g][v]), places[g][v])

        return types.void(*[types.int64] * 8, like), generate

    return intrinsic(tile)


def _halves(builder: Any, place: Any, like: Any) -> tuple[Any, Any]:
    """The first and the second elements of sixteen pairs, as float32."""
    if like.dtype == types.uint16:
        pairs = load(builder, place, INTEGERS, 2)
        first = builder.shl(pairs, constant(16, INTEGERS))
        second = builder.and_(pairs, constant(0xFFFF0000, INTEGERS))
        return builder.bitcast(first, VECTOR), builder.bitcast(second, VECTOR)
    low, high = (load(builder, place_of(builder, place, None, 0, at), VECTOR, 4) for at in (0, 4 * LANES))
    even, odd = (ir.Constant(INTEGERS, list(range(one, 2 * LANES, 2))) for one in (0, 1))
    return builder.shuffle_vector(low, high, even), builder.shuffle_vector(low, high, odd)


def _multiplying(panels_: int) -> Callable[..., Any]:
    """So many panels for as many lines as the registers have: one tile of `add_in_matrices`."""

    def tile(_context: Any, weights: Any, weights_line: Any, panels: Any, panel_bytes: Any, pairs: Any, out: Any,
             out_line: Any, ahead: Any) -> Any:  # fmt: skip
        def generate(_: Any, builder: Any, __: Any, args: Any) -> Any:
            weights, weights_line, panels, panel_bytes, pairs, out, out_line, ahead = args
            line = i64(CACHE_LINE)
            for n in range(panels_):
                sums, rows = _SUMS[n], _ROWS[n % len(_ROWS)]
                place, panel = (
                    place_of(builder, out, None, 0, 4 * LANES * n),
                    place_of(builder, panels, panel_bytes, n, 0),
                )
                load_tile(builder, sums, place, out_line)
                with cgutils.for_range(builder, builder.lshr(pairs, i64(4))) as loop:
                    load_tile(builder, _WEIGHTS, builder.add(weights, builder.shl(loop.index, i64(6))), weights_line)
                    part = builder.add(panel, builder.shl(loop.index, i64(10)))
                    load_tile(builder, rows, part, line)
                    for number in range(BLOCK):
                        prefetch(builder, builder.add(place_of(builder, part, line, number, 0), ahead))
                    multiply_tiles(builder, sums, _WEIGHTS, rows)
                store_tile(builder, sums, place, out_line)

        return types.void(*[types.int64] * 8), generate

    return intrinsic(tile)


_sum_4x4, _sum_3x4, _sum_2x4, _sum_1x4, _sum_1x1 = (
    _summing(lines, vectors) for lines, vectors in ((4, 4), (3, 4), (2, 4), (1, 4), (1, 1))
)
_multiply_4, _multiply_1 = _multiplying(4), _multiplying(1)

"""The inner loop of products of bfloat16 pairs: tiles of vector registers, in VDPBF16PS (AVX512_BF16)."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from graftwork.kernels.jit import intrinsic, jit
from graftwork.kernels.vectors import (
    CACHE_LINE,
    I32,
    INTEGERS,
    LANES,
    PAIRS,
    VECTOR,
    i64,
    load,
    narrowed,
    place_of,
    prefetch,
    slot,
    splat,
    store,
)

WIDTH = 2 * LANES  # outputs of a tile
ROWS = 8  # most rows of a tile
ROOM = 0  # bytes that a thread needs beside the registers


@jit
def panel(w: int, x: int, x_line: int, rows: int, pairs: int, bias: int, y: int, y_line: int, room: int) -> None:
    """y[t] = W x[t] + bias for the rows of x and WIDTH outputs: bfloat16, summed in float32.

    All are addresses; `x_line` and `y_line` are the bytes from one row to the next. W is [pairs, WIDTH, 2], bias
    [WIDTH] float32. Meanwhile the panel that lies behind W is fetched into the cache.
    """
    tiles = (rows + ROWS - 1) // ROWS
    behind = w + 4 * WIDTH * pairs
    row = 0
    for number in range(tiles):
        count = (rows - row) // (tiles - number)
        fetch, other = w, 0
        if tiles == 1:
            fetch, other = behind, CACHE_LINE
        elif number < 2:
            fetch = behind + number * CACHE_LINE
        _tile(w, x + row * x_line, x_line, pairs, fetch, other, bias, y + row * y_line, y_line, count)
        row += count


@jit
def leave(room: int) -> None:
    """A thread is through with its panels: nothing of them is left."""


@jit
def _tile(w: int, x: int, x_line: int, pairs: int, fetch: int, other: int, bias: int, y: int, y_line: int,
          count: int) -> None:  # fmt: skip
    """A panel of at most ROWS rows; every second cache line is fetched from `fetch` on, and from `other` bytes on."""
    if count == 8:
        _tile_8(w, x, x_line, pairs, fetch, other, bias, y, y_line)
    elif count == 7:
        _tile_7(w, x, x_line, pairs, fetch, other, bias, y, y_line)
    elif count == 6:
        _tile_6(w, x, x_line, pairs, fetch, other, bias, y, y_line)
    elif count == 5:
        _tile_5(w, x, x_line, pairs, fetch, other, bias, y, y_line)
    elif count == 4:
        _tile_4(w, x, x_line, pairs, fetch, other, bias, y, y_line)
    elif count == 3:
        _tile_3(w, x, x_line, pairs, fetch, other, bias, y, y_line)
    elif count == 2:
        _tile_2(w, x, x_line, pairs, fetch, other, bias, y, y_line)
    else:
        _tile_1(w, x, x_line, pairs, fetch, other, bias, y, y_line)


def _tiled(rows: int) -> Any:
    """y[t, :32] = W's 32 rows at `w` · x[t] + bias, for so many rows of x."""

    def tile(_context: Any, w: Any, x: Any, x_line: Any, pairs: Any, fetch: Any, other: Any, bias: Any, y: Any,
             y_line: Any) -> Any:  # fmt: skip
        def generate(_: Any, builder: Any, __: Any, args: Any) -> Any:
            w, x, x_line, pairs, fetch, other, bias, y, y_line = args
            sums = [[slot(builder) for _ in range(2)] for _ in range(rows)]
            for line in sums:
                for v in range(2):
                    builder.store(load(builder, place_of(builder, bias, None, 0, 4 * LANES * v), VECTOR, 4), line[v])
            lines = [place_of(builder, x, x_line, t, 0) for t in range(rows)]
            fetches = fetch, builder.add(fetch, other)
            with cgutils.for_range(builder, pairs) as loop:
                beyond = builder.mul(loop.index, i64(4 * WIDTH))
                place = builder.add(w, beyond)
                for one in fetches:
                    prefetch(builder, builder.add(one, beyond))
                weights = [load(builder, place_of(builder, place, None, 0, 4 * LANES * v), PAIRS, 64) for v in (0, 1)]
                for t in range(rows):
                    at = builder.add(lines[t], builder.shl(loop.index, i64(2)))
                    pair = builder.bitcast(splat(builder, load(builder, at, I32, 2), INTEGERS), PAIRS)
                    for v in (0, 1):
                        builder.store(_dot(builder, builder.load(sums[t][v]), weights[v], pair), sums[t][v])
            for t in range(rows):
                for v in (0, 1):
                    to = place_of(builder, y, y_line, t, 2 * LANES * v)
                    store(builder, narrowed(builder, builder.load(sums[t][v])), to)

        return types.void(*[types.int64] * 9), generate

    return intrinsic(tile)


def _dot(builder: Any, total: Any, a: Any, b: Any) -> Any:
    """total + the products of a's and b's pairs, each lane its own: VDPBF16PS."""
    kind = ir.FunctionType(VECTOR, [VECTOR, PAIRS, PAIRS])
    dot = cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.avx512bf16.dpbf16ps.512")
    return builder.call(dot, [total, a, b])


_tile_1, _tile_2, _tile_3, _tile_4, _tile_5, _tile_6, _tile_7, _tile_8 = (_tiled(rows) for rows in range(1, ROWS + 1))

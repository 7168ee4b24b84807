"""The inner loops of low-rank products and attention as tiles of vector registers: weighted sums, dot products, e ** x.

NOTE: Written in LLVM's vector instructions, sixteen float32 to a vector, which LLVM splits where a processor's are
shorter. A tile keeps all its sums in registers and reads each row once for several lines (tokens, or query heads):
the loops that LLVM finds by itself in Python code keep them in memory, and widen bfloat16 again for every line.
The shape of register tiles is that of Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import types
from numba.core import cgutils

from graftwork.kernels.jit import FLOAT32, Elements, array_at, intrinsic, jit, widen
from graftwork.kernels.vectors import (
    CACHE_LINE,
    F32,
    FLAGS,
    LANES,
    VECTOR,
    accumulate,
    constant,
    elements,
    i64,
    load,
    place_of,
    prefetch,
    size_of,
    slot,
    splat,
    store,
    total_of,
)

_AHEAD = 8192  # bytes


@jit
def add_weighted(weights_at: int, weights_line: int, rows_at: int, row_bytes: int, count: int,
                 out_at: int, out_line: int, lines: int, width: int, ahead: int, like: Elements) -> None:  # fmt: skip
    """out[g] += Σ weights[g, r] rows[r] over r < count, for g < lines: float32 [width] += Σ float32 · elements [width].

    All are addresses; `weights_line` and `out_line` are the bytes from one line to the next, `row_bytes` from one row
    to the next. While a row is read, what lies `ahead` bytes after it is fetched into the cache, for the next call.
    """
    size = like.itemsize
    whole = width - width % LANES
    g = 0
    while g < lines:
        left = lines - g
        w, o = weights_at + g * weights_line, out_at + g * out_line
        c = 0
        while c < whole:
            if whole - c >= 4 * LANES:
                if left >= 4:
                    _sum_4x4(w, weights_line, rows_at + c * size, row_bytes, count, o + c * 4, out_line, ahead, like)
                elif left == 3:
                    _sum_3x4(w, weights_line, rows_at + c * size, row_bytes, count, o + c * 4, out_line, ahead, like)
                elif left == 2:
                    _sum_2x4(w, weights_line, rows_at + c * size, row_bytes, count, o + c * 4, out_line, ahead, like)
                else:
                    _sum_1x4(w, weights_line, rows_at + c * size, row_bytes, count, o + c * 4, out_line, ahead, like)
                c += 4 * LANES
            else:
                for one in range(min(left, 4)):
                    at, to = w + one * weights_line, o + one * out_line + c * 4
                    _sum_1x1(at, weights_line, rows_at + c * size, row_bytes, count, to, out_line, ahead, like)
                c += LANES
        if whole < width:
            for one in range(min(left, 4)):
                weights = array_at(w + one * weights_line, count, FLOAT32)
                out = array_at(o + one * out_line, width, FLOAT32)
                for r in range(count):
                    row = array_at(rows_at + r * row_bytes, width, like)
                    for i in range(whole, width):
                        out[i] += weights[r] * widen(row[i])
        g += 4


@jit
def dots(x_at: int, x_line: int, rows_at: int, row_bytes: int, count: int, out_at: int, out_line: int,
         lines: int, width: int, like: Elements) -> None:  # fmt: skip
    """out[g, r] = x[g] · rows[r] for g < lines and r < count; x float32 [width], rows of elements [width].

    All are addresses, with the bytes from one line, or row, to the next.
    """
    whole = width - width % LANES
    g = 0
    while g < lines:
        many = lines - g >= 4
        x, o = x_at + g * x_line, out_at + g * out_line
        r = 0
        while r < count:
            at, to = rows_at + r * row_bytes, o + r * 4
            if count - r >= 4:
                if many:
                    _dot_4x4(x, x_line, at, row_bytes, whole, to, out_line, like)
                else:
                    _dot_1x4(x, x_line, at, row_bytes, whole, to, out_line, like)
                r += 4
            else:
                if many:
                    _dot_4x1(x, x_line, at, row_bytes, whole, to, out_line, like)
                else:
                    _dot_1x1(x, x_line, at, row_bytes, whole, to, out_line, like)
                r += 1
        step = 4 if many else 1
        if whole < width:
            for one in range(step):
                given = array_at(x + one * x_line, width, FLOAT32)
                out = array_at(o + one * out_line, count, FLOAT32)
                for r in range(count):
                    row = array_at(rows_at + r * row_bytes, width, like)
                    for i in range(whole, width):
                        out[r] += given[i] * widen(row[i])
        g += step


@jit
def add_in_order(weights_at: int, rows_at: int, count: int, out_at: int, width: int, like: Elements) -> None:
    """out += Σ weights[r] rows[r] over r < count, as `add_weighted` for one line, whose rows lie one after another.

    They are read in that order, for rows that come from memory: slower than a tile where they lie in a cache.
    """
    weights = array_at(weights_at, count, FLOAT32)
    whole = width - width % LANES
    for r in range(count):
        at = rows_at + r * width * like.itemsize
        _add_row(weights[r], at, whole, out_at, like)
        if whole < width:
            row, out = array_at(at, width, like), array_at(out_at, width, FLOAT32)
            for i in range(whole, width):
                out[i] += weights[r] * widen(row[i])


def _summing(lines: int, vectors: int) -> Callable[..., Any]:
    """out[g, :16 vectors] += Σ weights[g, r] rows[r, :16 vectors]: one tile of `add_weighted`."""

    def tile(_context: Any, weights: Any, weights_line: Any, rows: Any, row_bytes: Any, count: Any, out: Any,
             out_line: Any, ahead: Any, like: Any) -> Any:  # fmt: skip
        def generate(_: Any, builder: Any, __: Any, args: Any) -> Any:
            weights, weights_line, rows, row_bytes, count, out, out_line, ahead, _like = args
            sums = [[slot(builder) for _ in range(vectors)] for _ in range(lines)]
            for g in range(lines):
                for v in range(vectors):
                    builder.store(
                        load(builder, place_of(builder, out, out_line, g, 4 * LANES * v), VECTOR, 4), sums[g][v]
                    )
            with cgutils.for_range(builder, count) as loop:
                row = builder.add(rows, builder.mul(loop.index, row_bytes))
                for line in range(0, vectors * LANES * size_of(like), CACHE_LINE):
                    prefetch(builder, builder.add(row, builder.add(ahead, i64(line))))
                read = [
                    elements(builder, place_of(builder, row, None, 0, v * LANES * size_of(like)), like)
                    for v in range(vectors)
                ]
                for g in range(lines):
                    place = builder.add(place_of(builder, weights, weights_line, g, 0), builder.shl(loop.index, i64(2)))
                    weight = splat(builder, load(builder, place, F32, 4))
                    for v in range(vectors):
                        accumulate(builder, sums[g][v], weight, read[v])
            for g in range(lines):
                for v in range(vectors):
                    place = place_of(builder, out, out_line, g, 4 * LANES * v)
                    store(builder, builder.load(sums[g][v]), place)

        return types.void(*[types.int64] * 8, like), generate

    return intrinsic(tile)


def _dotting(lines: int, rows_: int) -> Callable[..., Any]:
    """out[g, r] = x[g, :count] · rows[r, :count], count a multiple of 16: one tile of `dots`."""

    def tile(_context: Any, x: Any, x_line: Any, rows: Any, row_bytes: Any, count: Any, out: Any, out_line: Any,
             like: Any) -> Any:  # fmt: skip
        def generate(_: Any, builder: Any, __: Any, args: Any) -> Any:
            x, x_line, rows, row_bytes, count, out, out_line, _like = args
            sums = [[slot(builder) for _ in range(rows_)] for _ in range(lines)]
            for line in sums:
                for one in line:
                    builder.store(constant(0.0), one)
            with cgutils.for_range(builder, builder.lshr(count, i64(4))) as loop:
                first = builder.shl(loop.index, i64(4))
                beyond = builder.shl(first, i64(2))
                given = [
                    load(builder, builder.add(place_of(builder, x, x_line, g, 0), beyond), VECTOR, 4)
                    for g in range(lines)
                ]
                for r in range(rows_):
                    begin = builder.mul(first, i64(size_of(like)))
                    at = builder.add(place_of(builder, rows, row_bytes, r, 0), begin)
                    if lines == 1:  # then rows come from memory as fast as they are used
                        prefetch(builder, builder.add(at, i64(_AHEAD)))
                    row = elements(builder, at, like)
                    for g in range(lines):
                        accumulate(builder, sums[g][r], given[g], row)
            for g in range(lines):
                for r in range(rows_):
                    to = place_of(builder, out, out_line, g, 4 * r)
                    store(builder, total_of(builder, builder.load(sums[g][r])), to)

        return types.void(*[types.int64] * 7, like), generate

    return intrinsic(tile)


@intrinsic
def _add_row(_context: Any, weight: Any, row: Any, count: Any, out: Any, like: Any) -> Any:
    """out[:count] += weight · row[:count], count a multiple of 16."""

    def generate(_: Any, builder: Any, __: Any, args: Any) -> Any:
        weight, row, count, out, _like = args
        factor = splat(builder, weight)

        def take(vector: Any) -> None:
            at, to = _vector_places(builder, vector, row, out, like)
            product = builder.fmul(factor, elements(builder, at, like), flags=FLAGS)
            store(builder, builder.fadd(load(builder, to, VECTOR, 4), product, flags=FLAGS), to)

        vectors = builder.lshr(count, i64(4))
        with cgutils.for_range(builder, builder.lshr(vectors, i64(2))) as loop:
            first = builder.shl(loop.index, i64(2))
            for v in range(4):
                take(builder.add(first, i64(v)))
            _fetch(builder, _vector_places(builder, first, row, out, like)[0], like)
        with cgutils.for_range_slice(builder, builder.and_(vectors, i64(-4)), vectors, i64(1)) as (index, _):
            take(index)

    return types.void(types.float32, *[types.int64] * 3, like), generate


def _vector_places(builder: Any, vector: Any, row: Any, wide: Any, like: Any) -> tuple[Any, Any]:
    """Where a row's vector of that number begins, and the float32 side's."""
    first = builder.shl(vector, i64(4))
    return builder.add(row, builder.mul(first, i64(size_of(like)))), builder.add(wide, builder.shl(first, i64(2)))


def _fetch(builder: Any, place: Any, like: Any) -> None:
    """Bring what four vectors will read a little later into the cache."""
    for line in range(0, 4 * LANES * size_of(like), CACHE_LINE):
        prefetch(builder, builder.add(place, i64(_AHEAD + line)))


_sum_4x4, _sum_3x4, _sum_2x4, _sum_1x4, _sum_1x1 = (
    _summing(lines, vectors) for lines, vectors in ((4, 4), (3, 4), (2, 4), (1, 4), (1, 1))
)
_dot_4x4, _dot_4x1, _dot_1x4, _dot_1x1 = (_dotting(lines, rows) for lines in (4, 1) for rows in (4, 1))

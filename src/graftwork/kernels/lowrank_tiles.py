"""Low-rank products of many tokens with one adapter in matrix registers: AMX's TDPBF16PS.

NOTE: The instruction multiplies bfloat16 only, so h goes on as the sum of two of them, its upper and its lower half:
within 2 ** -16 of itself. Both stand side by side in one row, above B's rows twice, so that up to rank 16 the lower
half costs nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types

from graftwork.kernels import matrix_tiles
from graftwork.kernels.jit import BFLOAT16, FLOAT32, array_at, intrinsic, jit, line_at, narrow, widen
from graftwork.kernels.matrix_tiles import ROWS, STEP
from graftwork.kernels.pair_tiles import WIDTH
from graftwork.kernels.vectors import (
    BITS,
    CACHE_LINE,
    INTEGERS,
    LANES,
    VECTOR,
    constant,
    elements,
    i64,
    load,
    narrowed,
    place_of,
    store,
)


@jit
def add(x_at: int, x_line: int, tokens: int, a_at: int, b_at: int, rank: int, width_in: int, y_at: int, y_line: int,
        width: int, room: int) -> None:  # fmt: skip
    """y[t] += (x[t] Aᵀ) Bᵀ for tokens that lie one after another: bfloat16, summed in float32, rounded once.

    All are addresses, with the bytes from one token to the next. A is [rank, width_in], which is a multiple of STEP;
    B is [rank, width]; `room` is the thread's own, as for `matrix_tiles.panel`.
    """
    nothing = np.zeros(WIDTH, np.float32)
    inner = (2 * rank + STEP - 1) // STEP  # steps of h's two halves
    h = np.zeros(tokens * inner * STEP + CACHE_LINE, np.uint16)
    panel = np.empty(max(width_in, inner * STEP) * WIDTH + CACHE_LINE, np.uint16)
    nothing_at, h_at, panel_at = nothing.ctypes.data, line_at(h.ctypes.data), line_at(panel.ctypes.data)
    h_line = 2 * inner * STEP
    for first in range(0, rank, WIDTH):
        ranks = min(rank - first, WIDTH)
        _turn(a_at + 2 * first * width_in, ranks, width_in, panel_at)
        for t in range(0, tokens, ROWS):
            count = min(tokens - t, ROWS)
            sums = matrix_tiles.add_up(
                panel_at, x_at + t * x_line, x_line, count, width_in // STEP, nothing_at, 0, 0, 0, room
            )
            for i in range(count):
                _halve(sums + 4 * i * WIDTH, ranks, h_at + (t + i) * h_line + 2 * first, rank)
    tiles = (tokens + ROWS - 1) // ROWS
    all_tiles = tiles * ((width + WIDTH - 1) // WIDTH)
    for number in range(all_tiles + 1):  # a tile is added to y while the registers make the next one
        if number < all_tiles:
            c, t = number // tiles * WIDTH, number % tiles * ROWS
            if t == 0:
                _interleave(b_at + 2 * c, 2 * width, rank, min(width - c, WIDTH), inner * STEP // 2, panel_at)
            matrix_tiles.add_up(
                panel_at, h_at + t * h_line, h_line, min(tokens - t, ROWS), inner, nothing_at, 0, 0, number % 2, room
            )
        if number > 0:
            c, t = (number - 1) // tiles * WIDTH, (number - 1) % tiles * ROWS
            sums = room + 64 + (number - 1) % 2 * matrix_tiles.SUMS
            _add(sums, y_at + t * y_line + 2 * c, y_line, min(tokens - t, ROWS), min(width - c, WIDTH))
    nothing[0] = 0  # so that it is there until now, like what follows
    h[0] = panel[0] = 0


@jit
def _add(sums: int, y: int, y_line: int, count: int, columns: int) -> None:
    """y[t, :columns] += sums[t] for `count` tokens."""
    if columns == WIDTH:
        matrix_tiles.add_narrowed(sums, y, y_line, count)
        return
    for t in range(count):
        more, row = array_at(sums + 4 * t * WIDTH, columns, FLOAT32), array_at(y + t * y_line, columns, BFLOAT16)
        for n in range(columns):
            row[n] = narrow(widen(row[n]) + more[n], row)


@jit
def _turn(a_at: int, ranks: int, width_in: int, panel_at: int) -> None:
    """A's rows [ranks, width_in] as a panel of pairs [width_in / 2, WIDTH, 2]; what is beyond them is anything."""
    for first in range(0, ranks, LANES):
        a, to = a_at + 2 * first * width_in, panel_at + 4 * first
        for begin in range(0, 2 * width_in, 4 * LANES):
            _turn_block(a + begin, 2 * width_in, min(ranks - first, LANES), to + begin * WIDTH)


@intrinsic
def _turn_block(_context: Any, rows: Any, line: Any, count: Any, to: Any) -> Any:
    """Sixteen pairs of each of `count` rows, at most sixteen, to sixteen lines of a panel."""

    def generate(_: Any, builder: Any, __: Any, args: Any) -> Any:
        rows, line, count, to = args
        last = builder.sub(count, i64(1))
        block = []
        for n in range(LANES):
            there = builder.select(builder.icmp_signed("<", i64(n), last), i64(n), last)  # those beyond are anything
            block.append(load(builder, builder.add(rows, builder.mul(there, line)), INTEGERS, 2))
        for step in (1, 2, 4, 8):  # exchange squares of so many pairs, across the diagonal
            upper = [lane if not lane & step else lane - step + LANES for lane in range(LANES)]
            lower = [lane + step if not lane & step else lane + LANES for lane in range(LANES)]
            for n in (n for n in range(LANES) if not n & step):
                a, b = block[n], block[n + step]
                block[n] = builder.shuffle_vector(a, b, ir.Constant(INTEGERS, upper))
                block[n + step] = builder.shuffle_vector(a, b, ir.Constant(INTEGERS, lower))
        for n, one in enumerate(block):
            store(builder, one, place_of(builder, to, None, 0, 4 * WIDTH * n))

    return types.void(*[types.int64] * 4), generate


@jit
def _halve(sums_at: int, ranks: int, h_at: int, rank: int) -> None:
    """Put each sum's upper half, a bfloat16, to its place at h, and what is left of it `rank` places further."""
    whole = ranks - ranks % LANES
    for r in range(0, whole, LANES):
        _halve_vector(sums_at + 4 * r, h_at + 2 * r, h_at + 2 * (r + rank))
    sums, h = array_at(sums_at, ranks, FLOAT32), array_at(h_at, rank + ranks, BFLOAT16)
    for r in range(whole, ranks):
        h[r] = narrow(sums[r], h)
        h[rank + r] = narrow(sums[r] - widen(h[r]), h)


@intrinsic
def _halve_vector(_context: Any, sums: Any, upper: Any, lower: Any) -> Any:
    def generate(_: Any, builder: Any, __: Any, args: Any) -> Any:
        sums, upper, lower = args
        value = load(builder, sums, VECTOR, 4)
        store(builder, narrowed(builder, value), upper)
        store(builder, narrowed(builder, builder.fsub(value, elements(builder, upper, BITS))), lower)

    return types.void(*[types.int64] * 3), generate


@jit
def _interleave(b_at: int, line: int, rank: int, columns: int, pairs: int, panel_at: int) -> None:
    """Twice B's rows [rank, columns], one below the other, as a panel of pairs [pairs, WIDTH, 2], zeros below."""
    for pair in range(pairs):
        to = panel_at + 4 * WIDTH * pair
        lower, upper = 2 * pair, 2 * pair + 1
        if lower >= 2 * rank:
            array_at(to, WIDTH, FLOAT32)[:] = 0
            continue
        a = b_at + (lower if lower < rank else lower - rank) * line
        b = b_at + (upper if upper < rank else upper - rank) * line
        if columns == WIDTH:
            _interleave_rows(a, b, to)
            continue
        first, second = array_at(a, columns, BFLOAT16), array_at(b, columns, BFLOAT16)
        both = array_at(to, 2 * columns, BFLOAT16)
        for n in range(columns):  # of columns beyond them the sums are anything
            both[2 * n], both[2 * n + 1] = first[n], second[n]


@intrinsic
def _interleave_rows(_context: Any, first: Any, second: Any, to: Any) -> Any:
    """WIDTH columns of two rows as pairs."""

    def generate(_: Any, builder: Any, __: Any, args: Any) -> Any:
        first, second, to = args
        half = ir.VectorType(ir.IntType(16), LANES)
        for v in (0, 1):
            a, b = (
                builder.zext(load(builder, place_of(builder, row, None, 0, 2 * LANES * v), half, 2), INTEGERS)
                for row in (first, second)
            )
            pairs = builder.or_(a, builder.shl(b, constant(16, INTEGERS)))
            store(builder, pairs, place_of(builder, to, None, 0, 4 * LANES * v))

    return types.void(*[types.int64] * 3), generate


@jit
def add_nothing(x_at: int, x_line: int, tokens: int, a_at: int, b_at: int, rank: int, width_in: int, y_at: int,
                y_line: int, width: int, room: int) -> None:  # fmt: skip
    """In `add`'s place where there are no such registers; nobody calls it."""

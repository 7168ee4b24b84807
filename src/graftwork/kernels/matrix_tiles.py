"""The inner loop of products of bfloat16 pairs where the processor has matrix registers: AMX's TDPBF16PS.

NOTE: Eight registers hold 16 rows of 64 bytes each. Four are the sums of 32 rows by 32 outputs, two hold 32 of each
row's inputs, and two W's part for these, which `PairMatrix` lays out as the instruction reads it. Each sum runs over
the inputs in their order, in one register, so a row has the same bits whatever rows are beside it.
Intel, "Intel Architecture Instruction Set Extensions Programming Reference" (319433), chapter 3.
"""

from __future__ import annotations

import ctypes
import platform
from functools import cache
from typing import Any

from llvmlite import binding, ir
from numba import types
from numba.core import cgutils

from graftwork.kernels.jit import intrinsic, ints_at, jit
from graftwork.kernels.pair_tiles import WIDTH
from graftwork.kernels.vectors import (
    BITS,
    CACHE_LINE,
    LANES,
    PAIRS,
    POINTER,
    VECTOR,
    elements,
    has_pairs,
    i64,
    load,
    place_of,
    prefetch,
    store,
)

BLOCK = 16  # rows of a register
ROWS = 2 * BLOCK  # most rows of a tile
STEP = 32  # inputs that one instruction takes
_ARCH_PRCTL, _REQUEST, _TILE_DATA = 158, 0x1023, 18  # of Linux on x86-64
_SUMS, _X, _W = ((0, 1), (2, 3)), (4, 5), (6, 7)  # registers
_SUMS_LINE = 4 * WIDTH  # bytes of a row's sums
_STEP_LINES = STEP * WIDTH * 2 // CACHE_LINE  # of W, that one step reads
SUMS = ROWS * _SUMS_LINE  # bytes of a tile's sums
ROOM = 64 + 2 * SUMS  # bytes that a thread needs: the registers' shapes, then the sums of two tiles


@cache
def has_registers() -> bool:
    """Whether this process may use them: Linux saves their 8 KiB for whoever has asked.

    Where they are, AVX512_BF16 rounds what goes into them and what comes out.
    """
    if not (has_pairs() and binding.get_host_cpu_features().get("amx-bf16") and platform.system() == "Linux"):
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    return int(libc.syscall(_ARCH_PRCTL, _REQUEST, _TILE_DATA)) == 0


@jit
def panel(w: int, x: int, x_line: int, rows: int, pairs: int, bias: int, y: int, y_line: int, room: int) -> None:
    """As `pair_tiles.panel`, for a multiple of STEP inputs; `room` is the thread's own, zero before its first call.

    Meanwhile the panel behind W comes into the second cache, its lines spread over the tiles: products with tiles that
    others share leave memory nothing to do, and the processor does not read so far ahead by itself.
    """
    tiles, steps, row, behind = (rows + ROWS - 1) // ROWS, pairs // (STEP // 2), 0, w + 4 * WIDTH * pairs
    for number in range(tiles):
        count = (rows - row) // (tiles - number)
        lines = _STEP_LINES * (number + 1) // tiles - _STEP_LINES * number // tiles
        sums = add_up(w, x + row * x_line, x_line, count, steps, bias, behind, lines, 0, room)
        _narrow(sums, y + row * y_line, y_line, count)
        row += count
        behind += lines * steps * CACHE_LINE


@jit
def add_up(w: int, x: int, x_line: int, count: int, steps: int, bias: int, fetch: int, lines: int, number: int,
           room: int) -> int:  # fmt: skip
    """Where sums [count, WIDTH] float32 = W x[t] + bias lie, for at most ROWS rows of x.

    They are the room's first or second, by `number`, 0 or 1. With each STEP of inputs so many cache lines are
    fetched, one after another from `fetch` on.
    """
    _shape_for(count, room)
    sums = room + 64 + number * SUMS
    if count > BLOCK:
        _sum_2(w, x, x_line, steps, bias, sums, fetch, lines)
    else:
        _sum_1(w, x, x_line, steps, bias, sums, fetch, lines)
    return sums


@jit
def leave(room: int) -> None:
    """A thread is through with its panels: the registers are nobody's again, and the system need not save them."""
    if ints_at(room, 1)[0]:
        _release()


@jit
def _shape_for(count: int, room: int) -> None:
    """Let the registers hold so many rows, at most ROWS."""
    few = min(count, BLOCK)
    more = max(count - few, 1)  # a register of no rows is none
    shape(few * 0x100000101 + more * 0x10001010000 + BLOCK * 0x101000000000000, room)


@jit
def shape(rows: int, room: int) -> None:
    """Let the registers be 64 bytes wide and have so many rows, a byte for each, the first one's the lowest."""
    shapes = ints_at(room, 8)  # LDTILECFG's table: the kind, then two bytes of width and one of rows for each register
    if shapes[6] != rows:
        shapes[0] = 1
        shapes[2] = shapes[3] = 64 * 0x1000100010001
        shapes[6] = rows
        _shape(room)


def _summing(blocks: int) -> Any:
    """sums[t] = W's 32 rows at `w` · x[t] + bias, for up to 16 · `blocks` rows of x, as the registers are shaped.

    With each step's inputs so many cache lines are fetched, one after another from `fetch` on.
    """

    def tile(_context: Any, w: Any, x: Any, x_line: Any, steps: Any, bias: Any, sums: Any, fetch: Any,
             lines: Any) -> Any:  # fmt: skip
        def generate(_: Any, builder: Any, __: Any, args: Any) -> Any:
            w, x, x_line, steps, bias, sums, fetch, lines = args
            line, halves = i64(_SUMS_LINE), range(2)
            for b in range(blocks):
                for v in halves:  # its one line in each row
                    load_tile(builder, _SUMS[b][v], place_of(builder, bias, None, 0, 64 * v), i64(0))
            with cgutils.for_range(builder, steps) as loop:
                part = builder.add(w, builder.mul(loop.index, i64(STEP * 2 * WIDTH)))
                at = builder.add(x, builder.mul(loop.index, i64(2 * STEP)))
                first = builder.mul(loop.index, lines)
                with cgutils.for_range(builder, lines) as further:
                    line_number = builder.add(first, further.index)
                    prefetch(builder, builder.add(fetch, builder.mul(line_number, i64(CACHE_LINE))), keep=2)
                for v in halves:
                    load_tile(builder, _W[v], place_of(builder, part, None, 0, 64 * v), i64(4 * WIDTH))
                    for b in range(blocks):
                        if v == 0:
                            load_tile(builder, _X[b], place_of(builder, at, x_line, BLOCK * b, 0), x_line)
                        multiply_tiles(builder, _SUMS[b][v], _X[b], _W[v])
            for b in range(blocks):
                for v in halves:
                    store_tile(builder, _SUMS[b][v], place_of(builder, sums, line, BLOCK * b, 64 * v), line)

        return types.void(*[types.int64] * 8), generate

    return intrinsic(tile)


def _narrowing(added: bool) -> Any:
    """y[t, :32] = sums[t], or with `added` y[t, :32] += sums[t], as bfloat16, for `count` rows."""

    def narrow(_context: Any, sums: Any, y: Any, y_line: Any, count: Any) -> Any:
        def generate(_: Any, builder: Any, __: Any, args: Any) -> Any:
            sums, y, y_line, count = args
            with cgutils.for_range(builder, count) as loop:
                row = builder.add(sums, builder.mul(loop.index, i64(_SUMS_LINE)))
                to = builder.add(y, builder.mul(loop.index, y_line))
                both = [load(builder, place_of(builder, row, None, 0, 4 * LANES * v), VECTOR, 64) for v in (0, 1)]
                if added:
                    there = [elements(builder, place_of(builder, to, None, 0, 2 * LANES * v), BITS) for v in (0, 1)]
                    both = [builder.fadd(one, more) for one, more in zip(there, both, strict=True)]
                store(builder, _narrowed(builder, *reversed(both)), to)

        return types.void(*[types.int64] * 4), generate

    return intrinsic(narrow)


def _narrowed(builder: Any, upper: Any, lower: Any) -> Any:
    """Twice sixteen float32 as bfloat16, rounded to the nearest."""
    kind = ir.FunctionType(PAIRS, [VECTOR, VECTOR])
    narrow = cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.avx512bf16.cvtne2ps2bf16.512")
    return builder.bitcast(builder.call(narrow, [upper, lower]), ir.VectorType(ir.IntType(16), 2 * LANES))


@intrinsic
def _shape(_context: Any, shapes: Any) -> Any:
    def generate(_: Any, builder: Any, __: Any, args: Any) -> Any:
        _call(builder, "ldtilecfg", builder.inttoptr(args[0], POINTER))

    return types.void(types.int64), generate


@intrinsic
def _release(_context: Any) -> Any:
    def generate(_: Any, builder: Any, __: Any, ___: Any) -> Any:
        _call(builder, "tilerelease")

    return types.void(), generate


def load_tile(builder: Any, register: int, place: Any, line: Any) -> None:
    """A register's rows from an address on, with so many bytes from one to the next."""
    _call(builder, "tileloadd64", _number(register), builder.inttoptr(place, POINTER), line)


def store_tile(builder: Any, register: int, place: Any, line: Any) -> None:
    """As `load_tile`, the other way."""
    _call(builder, "tilestored64", _number(register), builder.inttoptr(place, POINTER), line)


def multiply_tiles(builder: Any, sums: int, x: int, w: int) -> None:
    """The sums of each row of x by each column of pairs of w, added: TDPBF16PS."""
    _call(builder, "tdpbf16ps", *map(_number, (sums, x, w)))


def _call(builder: Any, name: str, *arguments: Any) -> None:
    kind = ir.FunctionType(ir.VoidType(), [one.type for one in arguments])
    builder.call(cgutils.get_or_insert_function(builder.module, kind, f"llvm.x86.{name}"), list(arguments))


def _number(register: int) -> Any:
    return ir.Constant(ir.IntType(8), register)


_sum_1, _sum_2 = _summing(1), _summing(2)
_narrow, add_narrowed = _narrowing(added=False), _narrowing(added=True)

"""A row's sum with its residual and its norm in vector instructions.

LLVM vectorises such loops by itself, but narrows to bfloat16 a few lanes at a time: half as fast.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import types
from numba.core import cgutils

from graftwork.kernels.jit import intrinsic
from graftwork.kernels.vectors import (
    FLAGS,
    LANES,
    VECTOR,
    accumulate,
    constant,
    elements,
    i64,
    load,
    narrowed,
    size_of,
    slot,
    splat,
    store,
    total_of,
)

_SUMS = 4  # squares are added up in so many vectors by turns: an addition takes four cycles


def _adding(with_delta: bool) -> Callable[..., Any]:
    """residual += delta, rounded; x = residual as float32; Σ x²: of `vectors` vectors at addresses."""

    def add(_context: Any, residual: Any, delta: Any, x: Any, vectors: Any, like: Any) -> Any:
        def generate(_: Any, builder: Any, __: Any, args: Any) -> Any:
            residual, delta, x, vectors, _like = args
            sums = [slot(builder) for _ in range(_SUMS)]
            for one in sums:
                builder.store(constant(0.0), one)

            def take(number: Any, squares: Any) -> None:
                at = _vector(builder, residual, number, size_of(like))
                wide = elements(builder, at, like)
                if with_delta:
                    more = elements(builder, _vector(builder, delta, number, size_of(like)), like)
                    _put(builder, builder.fadd(wide, more), at, like)
                    wide = elements(builder, at, like)
                store(builder, wide, _vector(builder, x, number, 4))
                accumulate(builder, squares, wide, wide)

            whole = builder.and_(vectors, i64(-_SUMS))
            with cgutils.for_range_slice(builder, i64(0), whole, i64(_SUMS)) as (first, _):
                for number, one in enumerate(sums):
                    take(builder.add(first, i64(number)), one)
            with cgutils.for_range_slice(builder, whole, vectors, i64(1)) as (number, _):
                take(number, sums[0])
            a, b, c, d = (builder.load(one) for one in sums)
            both = builder.fadd(builder.fadd(a, b, flags=FLAGS), builder.fadd(c, d, flags=FLAGS), flags=FLAGS)
            return total_of(builder, both)

        return types.float32(*[types.int64] * 4, like), generate

    return intrinsic(add)


@intrinsic
def scale(_context: Any, x: Any, factor: Any, weight: Any, out: Any, vectors: Any, like: Any) -> Any:
    """out = x · factor · weight, rounded: of `vectors` vectors at addresses, x and weight float32."""

    def generate(_: Any, builder: Any, __: Any, args: Any) -> Any:
        x, factor, weight, out, vectors, _like = args
        every = splat(builder, factor)
        with cgutils.for_range(builder, vectors) as loop:
            first, second = (load(builder, _vector(builder, one, loop.index, 4), VECTOR, 4) for one in (x, weight))
            scaled = builder.fmul(builder.fmul(first, every), second)
            _put(builder, scaled, _vector(builder, out, loop.index, size_of(like)), like)

    return types.void(types.int64, types.float32, *[types.int64] * 3, like), generate


def _vector(builder: Any, row: Any, number: Any, size: int) -> Any:
    """Where a row's vector of that number begins, of elements of so many bytes."""
    return builder.add(row, builder.mul(number, i64(LANES * size)))


def _put(builder: Any, value: Any, place: Any, like: Any) -> None:
    """A vector of float32 as elements."""
    store(builder, narrowed(builder, value) if like.dtype == types.uint16 else value, place)


add_delta, square = _adding(with_delta=True), _adding(with_delta=False)

"""Exponentials in vector instructions: the softmax of a page of scores, and e ** x for loops that LLVM vectorises."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from graftwork.kernels.jit import intrinsic
from graftwork.kernels.vectors import (
    FLAGS,
    I32,
    INTEGERS,
    LANES,
    VECTOR,
    constant,
    larger,
    load,
    narrowed,
    place_of,
    size_of,
    splat,
    store,
    total_of,
)

_ONE = 0x3F800000  # the bits of 1.0
#: 2 ** f, highest term first: ln(2) ** n / n!
_SERIES = (1.535336188319500e-4, 1.339887440266574e-3, 9.618437357674640e-3, 5.550332471162809e-2,
           2.402264791363012e-1, 6.931472028550421e-1, 1.0)  # fmt: skip


@intrinsic
def largest(_context: Any, at: Any, count: Any) -> Any:
    """The largest of the first `count` of 64 float32 at an address, without regard to NaN; -inf when count is 0."""

    def generate(_: Any, builder: Any, __: Any, args: Any) -> Any:
        at, count = args
        most = lowest = constant(float("-inf"))
        for place, valid in _masked(builder, at, count):
            most = larger(builder, builder.select(valid, load(builder, place, VECTOR, 4), lowest), most)
        for half in (8, 4, 2, 1):
            turned = ir.Constant(INTEGERS, [(lane + half) % LANES for lane in range(LANES)])
            most = larger(builder, builder.shuffle_vector(most, most, turned), most)
        return builder.extract_element(most, ir.Constant(I32, 0))

    return types.float32(types.int64, types.int64), generate


@intrinsic
def weigh(_context: Any, at: Any, count: Any, scale: Any, largest: Any, to: Any, numbers: Any) -> Any:
    """Put e ** (scale · score - largest) for the first `count` of 64 scores to `to`, 0 for the others; their sum.

    What is put are elements like `numbers`. Before they are rounded to these they are right within 2e-7 of themselves,
    for scaled scores up to `largest`; NaN stays NaN.
    """

    def generate(_: Any, builder: Any, __: Any, args: Any) -> Any:
        at, count, scale, largest, to, _numbers = args
        factor, most, nothing, total = splat(builder, scale), splat(builder, largest), constant(0.0), None
        for number, (place, valid) in enumerate(_masked(builder, at, count)):
            scaled = builder.fmul(load(builder, place, VECTOR, 4), factor)
            power = builder.select(valid, _power(builder, builder.fsub(scaled, most)), nothing)
            total = power if total is None else builder.fadd(total, power)
            put = narrowed(builder, power) if numbers.dtype == types.uint16 else power
            store(builder, put, place_of(builder, to, None, 0, size_of(numbers) * LANES * number))
        return total_of(builder, total)

    return types.float32(types.int64, types.int64, types.float32, types.float32, types.int64, numbers), generate


def _masked(builder: Any, at: Any, count: Any) -> Any:
    """The addresses of four vectors in a row, each with which of its lanes are among the first `count`."""
    limit = splat(builder, builder.trunc(count, I32), INTEGERS)
    for v in range(4):
        number = ir.Constant(INTEGERS, list(range(v * LANES, (v + 1) * LANES)))
        yield place_of(builder, at, None, 0, 4 * LANES * v), builder.icmp_signed("<", number, limit)


@intrinsic
def exp_negative(_context: Any, x: Any) -> Any:
    """e ** x for a float32 x <= 0, as in `weigh`; LLVM vectorises loops over it."""
    return types.float32(types.float32), lambda _, builder, __, args: _power(builder, args[0])


def _power(builder: Any, x: Any) -> Any:
    """e ** x for x <= 0, a float32 or a vector of them."""
    t = builder.fmul(x, constant(1.4426950408889634, x.type))
    lowest = constant(-126.0, x.type)
    t = builder.select(builder.fcmp_ordered("<", t, lowest), lowest, t)
    whole = _rounded(builder, t)
    f = builder.fsub(t, whole)  # 2 ** f by its series about 0, |f| <= 1/2
    y = constant(_SERIES[0], x.type)
    for term in _SERIES[1:]:
        y = builder.fadd(builder.fmul(y, f, flags=FLAGS), constant(term, x.type), flags=FLAGS)
    known = builder.select(builder.fcmp_ordered("ord", whole, whole), whole, constant(0.0, x.type))
    integers = INTEGERS if x.type is VECTOR else I32
    exponent = builder.shl(builder.fptosi(known, integers), constant(23, integers))  # NaN is no integer
    return builder.fmul(y, builder.bitcast(builder.add(exponent, constant(_ONE, integers)), x.type))


def _rounded(builder: Any, x: Any) -> Any:
    kind, suffix = ir.FunctionType(x.type, [x.type]), f"v{LANES}f32" if x.type is VECTOR else "f32"
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, f"llvm.rint.{suffix}"), [x])

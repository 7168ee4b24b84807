"""LLVM's vector instructions as the kernels' tiles use them: sixteen lanes, split where a processor has fewer."""

from __future__ import annotations

from functools import cache
from typing import Any

from llvmlite import binding, ir
from numba import types
from numba.core import cgutils

CACHE_LINE = 64  # bytes
LANES = 16
FLAGS = ("reassoc", "contract", "nsz")
F32 = ir.FloatType()
I32, I64 = ir.IntType(32), ir.IntType(64)
INTEGERS = ir.VectorType(I32, LANES)
POINTER = ir.IntType(8).as_pointer()
VECTOR = ir.VectorType(F32, LANES)
BITS = types.Array(types.uint16, 1, "C")  # the `like` of bfloat16


@cache
def has_pairs() -> bool:
    """Whether the processor multiplies and rounds bfloat16 by itself: AVX512_BF16."""
    return bool(binding.get_host_cpu_features().get("avx512bf16"))


class BFloat(ir.Type):  # type: ignore[misc]
    """LLVM's bfloat, which llvmlite has no name for."""

    def _to_string(self) -> str:
        return "bfloat"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BFloat)

    def __hash__(self) -> int:
        return hash(BFloat)


PAIRS = ir.VectorType(BFloat(), 2 * LANES)


def store(builder: Any, value: Any, place: Any) -> None:
    """A value to an address."""
    builder.store(value, builder.inttoptr(place, value.type.as_pointer()), align=4)


def i64(value: int) -> Any:
    return ir.Constant(I64, value)


def size_of(like: Any) -> int:
    return 2 if like.dtype == types.uint16 else 4


def slot(builder: Any) -> Any:
    """Room for one vector that LLVM keeps in a register."""
    return cgutils.alloca_once(builder, VECTOR)


def place_of(builder: Any, base: Any, stride: Any, number: int, beyond: int) -> Any:
    place = base if not number else builder.add(base, builder.mul(stride, i64(number)))
    return builder.add(place, i64(beyond)) if beyond else place


def load(builder: Any, place: Any, kind: Any, align: int) -> Any:
    return builder.load(builder.inttoptr(place, kind.as_pointer()), align=align)


def elements(builder: Any, place: Any, like: Any) -> Any:
    """Sixteen elements as float32."""
    if like.dtype != types.uint16:
        return load(builder, place, VECTOR, 4)
    narrow = load(builder, place, ir.VectorType(ir.IntType(16), LANES), 2)
    wide = builder.zext(narrow, INTEGERS)
    return builder.bitcast(builder.shl(wide, ir.Constant(INTEGERS, [16] * LANES)), VECTOR)


def splat(builder: Any, value: Any, kind: Any = VECTOR) -> Any:
    one = builder.insert_element(ir.Constant(kind, ir.Undefined), value, ir.Constant(I32, 0))
    return builder.shuffle_vector(one, one, ir.Constant(INTEGERS, [0] * LANES))


def prefetch(builder: Any, place: Any, keep: int = 3) -> None:
    """Fetch a cache line: into the first level's cache with 3 for `keep`, into the second's with 2."""
    kind = ir.FunctionType(ir.VoidType(), [POINTER, I32, I32, I32])
    fetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
    builder.call(fetch, [builder.inttoptr(place, POINTER), *(ir.Constant(I32, value) for value in (0, keep, 1))])


def accumulate(builder: Any, slot: Any, a: Any, b: Any) -> None:
    product = builder.fmul(a, b, flags=FLAGS)
    builder.store(builder.fadd(builder.load(slot), product, flags=FLAGS), slot)


def total_of(builder: Any, vector: Any) -> Any:
    kind = ir.FunctionType(F32, [F32, VECTOR])
    add = cgutils.get_or_insert_function(builder.module, kind, f"llvm.vector.reduce.fadd.v{LANES}f32")
    return builder.call(add, [ir.Constant(F32, 0.0), vector], fastmath=FLAGS)


def larger(builder: Any, a: Any, b: Any) -> Any:
    return builder.select(builder.fcmp_ordered(">", a, b), a, b)


def constant(value: float, kind: Any = VECTOR) -> Any:
    return ir.Constant(kind, [value] * LANES if isinstance(kind, ir.VectorType) else value)


def narrowed(builder: Any, value: Any) -> Any:
    """A float32, or a vector of them, as bfloat16's bits, rounded to the nearest, ties to even; NaN stays NaN.

    Where the processor rounds to bfloat16 by itself, what is less than 2 ** -126 becomes zero.
    """
    several = isinstance(value.type, ir.VectorType)
    short, integers = ir.IntType(16), INTEGERS if several else I32
    if has_pairs():
        kinds = [ir.VectorType(kind, LANES) if several else kind for kind in (BFloat(), short)]
        return builder.bitcast(builder.fptrunc(value, kinds[0]), kinds[1])

    def whole(number: int) -> Any:
        return constant(number, integers)

    bits = builder.bitcast(value, integers)
    upper = builder.lshr(bits, whole(16))
    half = builder.add(builder.and_(upper, whole(1)), whole(0x7FFF))
    rounded = builder.lshr(builder.add(bits, half), whole(16))
    is_nan = builder.icmp_unsigned(">", builder.and_(bits, whole(0x7FFFFFFF)), whole(0x7F800000))
    chosen = builder.select(is_nan, builder.or_(upper, whole(0x40)), rounded)
    return builder.trunc(chosen, ir.VectorType(short, LANES) if several else short)

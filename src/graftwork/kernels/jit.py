"""Numba as the CPU kernels use it: a typed decorator, bfloat16 as uint16, arrays at addresses.

NOTE: Kernels are generic over the element. numpy has no bfloat16, so its bits travel as uint16; `widen` and
`narrow` are a shift or nothing, by the array's dtype. Tensors come in as addresses: a numpy view of each
would cost microseconds at hundreds of calls a step. `fastmath` leaves out nnan and ninf: a NaN stays a NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from struct import pack, unpack
from typing import Any, TypeVar, cast

import numba
import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic as _intrinsic

from graftwork.kernels.vectors import CACHE_LINE, narrowed

F = TypeVar("F", bound=Callable[..., Any])
Elements = npt.NDArray[np.uint16] | npt.NDArray[np.float32]
Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]

# Empty arrays that tell a kernel what an address points to.
BFLOAT16: Elements = np.empty(0, np.uint16)
FLOAT32: Elements = np.empty(0, np.float32)
INT64: Ints = np.empty(0, np.int64)
FLOAT64 = np.empty(0, np.float64)

OPTIONS: dict[str, Any] = {
    "nopython": True,
    "error_model": "numpy",
    "fastmath": {"reassoc", "contract", "nsz", "arcp", "afn"},
}


def address(table: Ints) -> int:
    """Where a contiguous array's elements lie; the caller keeps it alive."""
    at: int = table.__array_interface__["data"][0]
    return at


@cache
def float_bits(number: float) -> int:
    """A float as the integer of the same bits: kernels take integers, and `float_at` gives it back."""
    bits: int = unpack("q", pack("d", number))[0]
    return bits


def jit(function: F) -> F:
    """A function that compiled kernels call."""
    return cast(F, numba.jit(**OPTIONS)(function))


def intrinsic(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function written in LLVM's instructions; its first argument is Numba's typing context."""
    return cast(Callable[..., Any], _intrinsic(function))


@intrinsic
def widen(_context: Any, element: Any) -> Any:
    """An element as float32: bfloat16's bits are float32's upper half."""

    def shift(_: Any, builder: Any, __: Any, args: Any) -> Any:
        wide = builder.shl(builder.zext(args[0], _I32), _i32(16))
        return builder.bitcast(wide, ir.FloatType())

    return types.float32(element), (shift if element == types.uint16 else _same)


@intrinsic
def narrow(_context: Any, value: Any, array: Any) -> Any:
    """A float32 as an element of `array`, rounded as `vectors.narrowed` does."""

    def round_(_: Any, builder: Any, __: Any, args: Any) -> Any:
        return narrowed(builder, args[0])

    return array.dtype(types.float32, array), (round_ if array.dtype == types.uint16 else _same)


@intrinsic
def take_number(_context: Any, address: Any) -> Any:
    """The int64 at an address, which grows by one: each of many threads takes another number."""

    def add(_: Any, builder: Any, __: Any, args: Any) -> Any:
        counter = builder.inttoptr(args[0], ir.IntType(64).as_pointer())
        return builder.atomic_rmw("add", counter, ir.Constant(ir.IntType(64), 1), "monotonic")

    return types.int64(types.int64), add


@intrinsic
def add(_context: Any, address: Any, value: Any) -> Any:
    """Add to the int64 at an address, which other threads do too; what was written before is seen by who sees this."""

    def generate(_: Any, builder: Any, __: Any, args: Any) -> Any:
        counter = builder.inttoptr(args[0], ir.IntType(64).as_pointer())
        builder.atomic_rmw("add", counter, args[1], "seq_cst")

    return types.void(types.int64, types.int64), generate


@intrinsic
def seen(_context: Any, address: Any) -> Any:
    """The int64 at an address that other threads change, after a moment that leaves the core to its other thread."""

    def generate(_: Any, builder: Any, __: Any, args: Any) -> Any:
        kind = ir.FunctionType(ir.VoidType(), [])
        builder.call(cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.sse2.pause"), [])
        return builder.load_atomic(builder.inttoptr(args[0], ir.IntType(64).as_pointer()), "acquire", 8)

    return types.int64(types.int64), generate


@intrinsic
def _pointer(_context: Any, address: Any, array: Any) -> Any:
    def to_pointer(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], context.get_value_type(signature.return_type))

    return types.CPointer(array.dtype)(types.int64, array), to_pointer


@jit
def array_at(address: int, count: int, array: Elements) -> Elements:
    """The `count` elements at an address, of the given array's dtype; nothing keeps them alive."""
    view: Elements = numba.carray(_pointer(address, array), (count,))
    return view


@jit
def float_at(address: int) -> float:
    """The float64 at an address."""
    value: float = numba.carray(_pointer(address, FLOAT64), (1,))[0]
    return value


@jit
def ints_at(address: int, count: int) -> Ints:
    """The `count` int64 at an address."""
    view: Ints = numba.carray(_pointer(address, INT64), (count,))
    return view


@jit
def line_at(place: int) -> int:
    """Where the next cache line begins: what is read by lines is read twice as fast if it begins with one."""
    return (place + CACHE_LINE - 1) // CACHE_LINE * CACHE_LINE


@jit
def floats_at(address: int, count: int) -> Any:
    """The `count` float64 at an address."""
    return numba.carray(_pointer(address, FLOAT64), (count,))


_I32 = ir.IntType(32)


def _i32(value: int) -> Any:
    return ir.Constant(_I32, value)


def _same(_: Any, __: Any, ___: Any, args: Any) -> Any:
    return args[0]

"""The small operations of a Llama layer on CPUs: one kernel call each, a job per token."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from graftwork.kernels import row_vectors
from graftwork.kernels.attention import PAGE_TOKENS, AttentionRows
from graftwork.kernels.attention_cpu import layer_place, put, run_of
from graftwork.kernels.decoder import Heads, Rotary
from graftwork.kernels.exponentials import exp_negative
from graftwork.kernels.jit import (
    BFLOAT16,
    FLOAT32,
    Elements,
    array_at,
    float_at,
    float_bits,
    ints_at,
    jit,
    narrow,
    take_number,
    widen,
)
from graftwork.kernels.parallel import Call, ParallelKernel, launch
from graftwork.kernels.vectors import LANES

_NOWHERE = 0


def add_norm(residual: Tensor, delta: Tensor | None, weight: Tensor, eps: float) -> Tensor:
    """As `decoder.add_norm`; residual and delta are contiguous."""
    out = torch.empty(residual.shape, dtype=residual.dtype)
    launch(*add_norm_call(residual, delta, weight, eps, out))
    return out


def add_norm_call(residual: Tensor, delta: Tensor | None, weight: Tensor, eps: float, out: Tensor) -> Call:
    tokens, hidden = residual.shape
    return (
        _NORM.compiled(residual.dtype),
        tokens,
        4 * tokens * hidden * residual.itemsize,
        residual.data_ptr(),
        _NOWHERE if delta is None else delta.data_ptr(),
        weight.data_ptr(),
        out.data_ptr(),
        hidden,
        float_bits(eps),
    )


def rotate(qkv: Tensor, heads: Heads, rotary: Rotary, positions: Tensor) -> None:
    """As `decoder.rotate`."""
    launch(*_rotate_call(qkv, heads, rotary, positions, (_NOWHERE,) * 5))


def rotate_and_write(
    qkv: Tensor, heads: Heads, rotary: Rotary, positions: Tensor, keys: Tensor, values: Tensor, layer: int,
    rows: AttentionRows,
) -> None:  # fmt: skip
    """As `decoder.rotate_and_write`."""
    launch(*rotate_and_write_call(qkv, heads, rotary, positions, keys, values, layer, rows))


def rotate_and_write_call(
    qkv: Tensor, heads: Heads, rotary: Rotary, positions: Tensor, keys: Tensor, values: Tensor, layer: int,
    rows: AttentionRows,
) -> Call:  # fmt: skip
    places = (rows.places_at, *layer_place(keys, layer), *layer_place(values, layer))
    return _rotate_call(qkv, heads, rotary, positions, places)


def gated(gate_up: Tensor) -> Tensor:
    """As `decoder.gated`; gate_up is contiguous."""
    out = torch.empty(len(gate_up), gate_up.shape[1] // 2, dtype=gate_up.dtype)
    launch(*gated_call(gate_up, out))
    return out


def gated_call(gate_up: Tensor, out: Tensor) -> Call:
    tokens, width = out.shape
    at, to = gate_up.data_ptr(), out.data_ptr()
    return _GATED.compiled(gate_up.dtype), tokens, 6 * gate_up.nbytes, at, to, width


def warm(dtype: torch.dtype) -> None:
    """Compile for a dtype, or read it from the disk cache."""
    for kernel in (_NORM, _ROTATE, _GATED):
        kernel.compiled(dtype)


def _rotate_call(qkv: Tensor, heads: Heads, rotary: Rotary, positions: Tensor, places: tuple[int, ...]) -> Call:
    return (
        _ROTATE.compiled(qkv.dtype),
        len(qkv),
        4 * qkv.nbytes,
        qkv.data_ptr(),
        qkv.stride(0),
        positions.data_ptr(),
        rotary.table.data_ptr(),
        heads.queries,
        heads.keys,
        heads.head_dim,
        *places,
        _NOWHERE if rotary.q_norm is None else rotary.q_norm.data_ptr(),
        _NOWHERE if rotary.k_norm is None else rotary.k_norm.data_ptr(),
        float_bits(rotary.eps),
    )


@jit
def _norm(arguments: int, like: Elements) -> None:
    jobs, residual_at, delta_at, weight_at, out_at, hidden = ints_at(arguments, 7)[1:7]
    eps = float_at(arguments + 7 * 8)
    line = hidden * like.itemsize
    weight = array_at(weight_at, hidden, FLOAT32)
    x = np.empty(hidden, np.float32)
    x_at, vectors = x.ctypes.data, hidden // LANES
    run = run_of(jobs)
    while True:
        begin = take_number(arguments) * run
        if begin >= jobs:
            break
        for token in range(begin, min(begin + run, jobs)):
            place, out_place = residual_at + token * line, out_at + token * line
            residual, out = array_at(place, hidden, like), array_at(out_place, hidden, like)
            if delta_at == _NOWHERE:
                squares = row_vectors.square(place, place, x_at, vectors, like)
            else:
                delta = array_at(delta_at + token * line, hidden, like)
                squares = row_vectors.add_delta(place, delta_at + token * line, x_at, vectors, like)
                for i in range(vectors * LANES, hidden):
                    residual[i] = narrow(widen(residual[i]) + widen(delta[i]), residual)
            for i in range(vectors * LANES, hidden):
                x[i] = widen(residual[i])
                squares += x[i] * x[i]
            scale = np.float32(1 / math.sqrt(squares / np.float32(hidden) + eps))
            row_vectors.scale(x_at, scale, weight_at, out_place, vectors, like)
            for i in range(vectors * LANES, hidden):
                out[i] = narrow(x[i] * scale * weight[i], out)


@jit
def _turn(arguments: int, like: Elements) -> None:
    a = ints_at(arguments, 16)
    jobs, qkv_at, stride, positions_at, table_at, queries, key_heads, head_dim = a[1:9]
    places_at, keys_at, keys_stride, values_at, values_stride, q_norm_at, k_norm_at = a[9:16]
    eps = float_at(arguments + 16 * 8)
    size = like.itemsize
    half = head_dim // 2
    block = head_dim * PAGE_TOKENS
    positions = ints_at(positions_at, jobs)
    x = np.empty(head_dim, np.float32)
    run = run_of(jobs)
    while True:
        begin = take_number(arguments) * run
        if begin >= jobs:
            break
        for token in range(begin, min(begin + run, jobs)):
            at = qkv_at + token * stride * size
            turns = array_at(table_at + positions[token] * head_dim * 4, head_dim, FLOAT32)
            for head in range(queries + key_heads):
                given = array_at(at + head * head_dim * size, head_dim, like)
                for i in range(head_dim):
                    x[i] = widen(given[i])
                norm_at = q_norm_at if head < queries else k_norm_at
                if norm_at != _NOWHERE:
                    _normalise(x, array_at(norm_at, head_dim, FLOAT32), eps)
                first, second, cos, sin = x[:half], x[half:], turns[:half], turns[half:]
                low, high = given[:half], given[half:]
                for i in range(half):
                    low[i] = narrow(first[i] * cos[i] - second[i] * sin[i], low)
                    high[i] = narrow(second[i] * cos[i] + first[i] * sin[i], high)
            if places_at != _NOWHERE:
                page, offset = ints_at(places_at, jobs)[token], ints_at(places_at + jobs * 8, jobs)[token]
                for head in range(key_heads):
                    k = array_at(at + (queries + head) * head_dim * size, head_dim, like)
                    v = array_at(at + (queries + key_heads + head) * head_dim * size, head_dim, like)
                    to_k = array_at(keys_at + (page * keys_stride + head * block) * size, block, like)
                    to_v = array_at(values_at + (page * values_stride + head * block) * size, block, like)
                    put(k, v, to_k, to_v, offset)


@jit
def _normalise(x: Elements, weight: Elements, eps: float) -> None:
    squares = np.float32(0)
    for i in range(len(x)):
        squares += x[i] * x[i]
    scale = np.float32(1 / math.sqrt(squares / np.float32(len(x)) + eps))
    for i in range(len(x)):
        x[i] = x[i] * scale * weight[i]


@jit
def _gate(arguments: int, like: Elements) -> None:
    jobs, gate_up_at, out_at, width = ints_at(arguments, 5)[1:5]
    line = width * like.itemsize
    one, nothing = np.float32(1), np.float32(0)
    run = run_of(jobs)
    while True:
        begin = take_number(arguments) * run
        if begin >= jobs:
            break
        for token in range(begin, min(begin + run, jobs)):
            gate = array_at(gate_up_at + 2 * token * line, width, like)
            up = array_at(gate_up_at + (2 * token + 1) * line, width, like)
            out = array_at(out_at + token * line, width, like)
            for i in range(width):
                g = widen(gate[i])
                e = exp_negative(-abs(g))
                share = (one if g >= nothing else e) / (one + e)
                out[i] = narrow(g * share * widen(up[i]), out)


def _norm_bfloat16(arguments: int) -> None:
    _norm(arguments, BFLOAT16)


def _norm_float32(arguments: int) -> None:
    _norm(arguments, FLOAT32)


def _rotate_bfloat16(arguments: int) -> None:
    _turn(arguments, BFLOAT16)


def _rotate_float32(arguments: int) -> None:
    _turn(arguments, FLOAT32)


def _gated_bfloat16(arguments: int) -> None:
    _gate(arguments, BFLOAT16)


def _gated_float32(arguments: int) -> None:
    _gate(arguments, FLOAT32)


_NORM = ParallelKernel(_norm_bfloat16, _norm_float32)
_ROTATE = ParallelKernel(_rotate_bfloat16, _rotate_float32)
_GATED = ParallelKernel(_gated_bfloat16, _gated_float32)

"""Paged attention on CPUs: one kernel call for all rows, whether they decode or compute a prompt."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from graftwork.kernels.attention import BLOCK_QUERIES, PAGE_TOKENS, AttentionRows
from graftwork.kernels.exponentials import largest, weigh
from graftwork.kernels.jit import (
    BFLOAT16,
    FLOAT32,
    Elements,
    Floats,
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
from graftwork.kernels.tiles import add_weighted

_SCATTER = 4  # a key's elements go to as many cache lines: dearer than its bytes


def write_kv(k: Tensor, v: Tensor, keys: Tensor, values: Tensor, layer: int, rows: AttentionRows) -> None:
    """Put this step's keys and values, both [tokens, kv_heads, head_dim], into their pages of one layer."""
    k, v = _dense(k), _dense(v)
    assert k.dtype == v.dtype == keys.dtype == values.dtype, "keys and values are stored as they come"
    tokens, kv_heads, head_dim = k.shape
    launch(
        _WRITE.compiled(k.dtype),
        tokens,
        2 * k.nbytes * _SCATTER,
        rows.places_at,
        k.data_ptr(),
        *k.stride()[:2],
        v.data_ptr(),
        *v.stride()[:2],
        *layer_place(keys, layer),
        *layer_place(values, layer),
        kv_heads,
        head_dim,
    )


def attend(q: Tensor, keys: Tensor, values: Tensor, layer: int, rows: AttentionRows, scale: float) -> Tensor:
    """Causal, grouped-query attention of each row's new tokens over that row's own tokens.

    q is [tokens, heads, head_dim] and so is the result; query head h reads kv head h // (heads / kv_heads).
    """
    q = _dense(q)
    out = torch.empty(q.shape, dtype=q.dtype)
    launch(*attend_call(q, keys, values, layer, rows, scale, out))
    return out


def attend_call(
    q: Tensor, keys: Tensor, values: Tensor, layer: int, rows: AttentionRows, scale: float, out: Tensor
) -> Call:
    assert q.dtype == keys.dtype == values.dtype, "the kernel reads all of them as one dtype"
    kv_heads, head_dim = keys.shape[2:4]
    blocks, columns = rows.blocks.shape
    return (
        _ATTEND.compiled(q.dtype),
        blocks * kv_heads,  # one job: a block's queries of one kv head
        2 * rows.tokens_read * kv_heads * head_dim * q.itemsize,
        rows.blocks_at,
        columns,
        q.data_ptr(),
        *q.stride()[:2],
        out.data_ptr(),
        *layer_place(keys, layer),
        *layer_place(values, layer),
        kv_heads,
        q.shape[1] // kv_heads,
        head_dim,
        float_bits(scale),
    )


def warm(dtype: torch.dtype) -> None:
    """Compile for a dtype, or read it from the disk cache."""
    _WRITE.compiled(dtype)
    _ATTEND.compiled(dtype)


def layer_place(pages: Tensor, layer: int) -> tuple[int, int]:
    """Where a layer begins in the first page, and how many elements lie from one page to the next."""
    page, line, *within = pages.stride()
    if not layer:  # once a step
        assert within == [pages.shape[3] * pages.shape[4], pages.shape[4], 1], "a layer of a page is one block"
    return pages.data_ptr() + layer * line * pages.itemsize, page


def _dense(x: Tensor) -> Tensor:
    """x [tokens, heads, head_dim] with each head's elements side by side: as it is, or a copy."""
    return x if x.stride(2) == 1 else x.contiguous()


@jit
def _write(arguments: int, like: Elements) -> None:
    a = ints_at(arguments, 15)
    jobs, places_at, k_at, k_stride, k_head, v_at, v_stride, v_head = a[1:9]
    keys_at, keys_stride, values_at, values_stride, kv_heads, head_dim = a[9:15]
    size = like.itemsize
    block = head_dim * PAGE_TOKENS
    page = ints_at(places_at, jobs)
    offset = ints_at(places_at + jobs * 8, jobs)
    while True:
        token = take_number(arguments)
        if token >= jobs:
            break
        for head in range(kv_heads):
            k = array_at(k_at + (token * k_stride + head * k_head) * size, head_dim, like)
            v = array_at(v_at + (token * v_stride + head * v_head) * size, head_dim, like)
            to_k = array_at(keys_at + (page[token] * keys_stride + head * block) * size, block, like)
            to_v = array_at(values_at + (page[token] * values_stride + head * block) * size, block, like)
            put(k, v, to_k, to_v, offset[token])


@jit
def put(k: Elements, v: Elements, keys: Elements, values: Elements, offset: int) -> None:
    """One head's key and value [head_dim] of a token to their place in that head's blocks of a page."""
    for i in range(len(k)):
        keys[i * PAGE_TOKENS + offset] = k[i]
    values[offset * len(v) : (offset + 1) * len(v)] = v


@jit
def _attend(arguments: int, like: Elements) -> None:
    a = ints_at(arguments, 15)
    jobs, table_at, table_stride, q_at, q_stride, q_head, out_at, keys_at, keys_stride = a[1:10]
    values_at, values_stride, kv_heads, group, head_dim = a[10:15]
    scale = np.float32(float_at(arguments + 15 * 8))
    size = like.itemsize
    block = head_dim * PAGE_TOKENS
    most_lines = BLOCK_QUERIES * group  # a line is one query head of one token
    q = np.empty(most_lines * head_dim, np.float32)
    out = np.empty(most_lines * head_dim, np.float32)
    most = np.empty(most_lines, np.float32)
    total = np.empty(most_lines, np.float32)
    p = np.empty(most_lines * PAGE_TOKENS, np.float32)
    # A thread takes all heads of a block where there are many blocks: they lie side by side.
    unit = kv_heads if jobs >= 8 * kv_heads else 1
    while True:
        unit_at = take_number(arguments) * unit
        if unit_at >= jobs:
            break
        for job in range(unit_at, unit_at + unit):
            row = ints_at(table_at + (job // kv_heads) * table_stride * 8, table_stride)
            head = job % kv_heads
            token, queries, place = row[0], row[1], row[2]
            lines = queries * group
            for line in range(lines):
                at = q_at + ((token + line // group) * q_stride + (head * group + line % group) * q_head) * size
                given = array_at(at, head_dim, like)
                mine = q[line * head_dim : (line + 1) * head_dim]
                for i in range(head_dim):
                    mine[i] = widen(given[i]) * scale
            out[: lines * head_dim] = 0
            most[:lines] = -np.inf
            total[:lines] = 0
            last = (place + queries - 1) // PAGE_TOKENS
            for number in range(last + 1):
                page = row[3 + number]
                keys = keys_at + (page * keys_stride + head * block) * size
                values = values_at + (page * values_stride + head * block) * size
                begin = number * PAGE_TOKENS
                p[: lines * PAGE_TOKENS] = 0
                add_weighted(q.ctypes.data, head_dim * 4, keys, PAGE_TOKENS * size, head_dim,
                             p.ctypes.data, PAGE_TOKENS * 4, lines, PAGE_TOKENS, values - keys, like)  # fmt: skip
                for line in range(lines):
                    valid = min(max(place + line // group + 1 - begin, 0), PAGE_TOKENS)
                    scores = p[line * PAGE_TOKENS : (line + 1) * PAGE_TOKENS]
                    mine = out[line * head_dim : (line + 1) * head_dim]
                    most[line], total[line] = _soften(scores, valid, most[line], total[line], mine)
                valid = min(place + queries - begin, PAGE_TOKENS)
                after = row[3] * keys_stride + (head + 1) * block  # what is read next: the next head, or page
                if number < last:
                    after = row[4 + number] * keys_stride + head * block
                ahead = keys_at + after * size - values
                add_weighted(p.ctypes.data, PAGE_TOKENS * 4, values, head_dim * size, valid,
                             out.ctypes.data, head_dim * 4, lines, head_dim, ahead, like)  # fmt: skip
            for line in range(lines):
                at = out_at + (((token + line // group) * kv_heads + head) * group + line % group) * head_dim * size
                result = array_at(at, head_dim, like)
                mine = out[line * head_dim : (line + 1) * head_dim]
                share = np.float32(1) / total[line]
                for i in range(head_dim):
                    result[i] = narrow(mine[i] * share, result)


@jit
def _soften(p: Floats, valid: int, most: float, total: float, out: Floats) -> tuple[float, float]:
    """Turn a page's scores into weights against the largest score so far; rescale what was summed before.

    NOTE: The online softmax of FlashAttention (https://arxiv.org/abs/2205.14135).
    """
    if valid == 0:  # the page lies in this line's future
        p[:] = 0
        return most, total
    larger = max(most, largest(p.ctypes.data, valid))
    weighed = weigh(p.ctypes.data, valid, larger)
    keep = np.float32(math.exp(most - larger))
    if keep != 1:
        for i in range(len(out)):
            out[i] *= keep
    return larger, total * keep + weighed


def _write_bfloat16(arguments: int) -> None:
    _write(arguments, BFLOAT16)


def _write_float32(arguments: int) -> None:
    _write(arguments, FLOAT32)


def _attend_bfloat16(arguments: int) -> None:
    _attend(arguments, BFLOAT16)


def _attend_float32(arguments: int) -> None:
    _attend(arguments, FLOAT32)


_WRITE = ParallelKernel(_write_bfloat16, _write_float32)
_ATTEND = ParallelKernel(_attend_bfloat16, _attend_float32)

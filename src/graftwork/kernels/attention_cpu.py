"""Paged attention on CPUs: one kernel call for all one-token rows, torch's SDPA for each longer row."""

from __future__ import annotations

from functools import cache
from struct import pack, unpack
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from graftwork.kernels.attention import PAGE_TOKENS, AttentionRows, gather
from graftwork.kernels.jit import (
    BFLOAT16,
    FLOAT32,
    Elements,
    Floats,
    address,
    array_at,
    float_at,
    ints_at,
    jit,
    narrow,
    power_of_two,
    take_number,
    widen,
)
from graftwork.kernels.parallel import ParallelKernel, launch
from graftwork.kernels.sums import add_rows

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
        address(rows.places),
        k.data_ptr(),
        *k.stride()[:2],
        v.data_ptr(),
        *v.stride()[:2],
        *_layer(keys, layer),
        *_layer(values, layer),
        kv_heads,
        head_dim,
    )


def attend(q: Tensor, keys: Tensor, values: Tensor, layer: int, rows: AttentionRows, scale: float) -> Tensor:
    """Causal, grouped-query attention of each row's new tokens over that row's own tokens.

    q is [tokens, heads, head_dim] and so is the result; query head h reads kv head h // (heads / kv_heads).
    """
    assert q.dtype == keys.dtype == values.dtype, "the kernel reads all of them as one dtype"
    out = torch.empty(q.shape, dtype=q.dtype)
    if len(rows.single):
        _attend_single(_dense(q), keys, values, layer, rows, scale, out)
    for chunk in rows.chunks:
        k, v = gather(keys, values, layer, chunk.pages, chunk.length)
        out[chunk.new] = _attend_chunk(q[chunk.new], k, v, chunk.mask, scale)
    return out


def warm(dtype: torch.dtype) -> None:
    """Compile for a dtype, or read it from the disk cache."""
    _WRITE.compiled(dtype)
    _ATTEND.compiled(dtype)


def _attend_chunk(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float) -> Tensor:
    """q [new, heads, head_dim] over k and v [kv_heads, length, head_dim]."""
    out = F.scaled_dot_product_attention(
        q.transpose(0, 1)[None], k[None], v[None], mask, is_causal=mask is None, scale=scale, enable_gqa=True
    )
    return out[0].transpose(0, 1)


def _attend_single(
    q: Tensor, keys: Tensor, values: Tensor, layer: int, rows: AttentionRows, scale: float, out: Tensor
) -> None:
    kv_heads, head_dim = keys.shape[2], keys.shape[3]
    launch(
        _ATTEND.compiled(q.dtype),
        len(rows.single) * kv_heads,  # one job: a row's queries of one kv head
        2 * rows.single_tokens * kv_heads * head_dim * q.itemsize,
        address(rows.single),
        rows.single.shape[1],
        q.data_ptr(),
        *q.stride()[:2],
        out.data_ptr(),
        *_layer(keys, layer),
        *_layer(values, layer),
        kv_heads,
        q.shape[1] // kv_heads,
        head_dim,
        _bits(scale),
    )


def _layer(pages: Tensor, layer: int) -> tuple[int, int]:
    """Where a layer begins in the first page, and how many elements lie from one page to the next."""
    rows, columns = pages.shape[3:]
    assert pages.stride()[2:] == (rows * columns, columns, 1), "a layer of a page is one block"
    return pages.data_ptr() + layer * pages.stride(1) * pages.itemsize, pages.stride(0)


def _dense(x: Tensor) -> Tensor:
    """x [tokens, heads, head_dim] with each head's elements side by side: as it is, or a copy."""
    return x if x.stride(2) == 1 else x.contiguous()


@cache
def _bits(number: float) -> int:
    """A float as the integer of the same bits: kernels take integers."""
    bits: int = unpack("q", pack("d", number))[0]
    return bits


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
            place = offset[token]
            for i in range(head_dim):
                to_k[i * PAGE_TOKENS + place] = k[i]
            to_v[place * head_dim : (place + 1) * head_dim] = v


@jit
def _attend(arguments: int, like: Elements) -> None:
    a = ints_at(arguments, 15)
    jobs, table_at, table_stride, q_at, q_stride, q_head, out_at, keys_at, keys_stride = a[1:10]
    values_at, values_stride, kv_heads, group, head_dim = a[10:15]
    scale = np.float32(float_at(arguments + 15 * 8))
    size = like.itemsize
    block = head_dim * PAGE_TOKENS
    q = np.empty(group * head_dim, np.float32)
    out = np.empty(group * head_dim, np.float32)
    most = np.empty(group, np.float32)
    total = np.empty(group, np.float32)
    p = np.empty(PAGE_TOKENS, np.float32)
    while True:
        job = take_number(arguments)
        if job >= jobs:
            break
        row = ints_at(table_at + (job // kv_heads) * table_stride * 8, table_stride)
        head = job % kv_heads
        token, length = row[0], row[1]
        for g in range(group):
            at = q_at + (token * q_stride + (head * group + g) * q_head) * size
            given = array_at(at, head_dim, like)
            for i in range(head_dim):
                q[g * head_dim + i] = widen(given[i]) * scale
        out[:] = 0
        most[:] = -np.inf
        total[:] = 0
        for number in range((length + PAGE_TOKENS - 1) // PAGE_TOKENS):
            page = row[2 + number]
            k = array_at(keys_at + (page * keys_stride + head * block) * size, block, like)
            v = array_at(values_at + (page * values_stride + head * block) * size, block, like)
            valid = min(length - number * PAGE_TOKENS, PAGE_TOKENS)
            for g in range(group):
                mine = out[g * head_dim : (g + 1) * head_dim]
                p[:] = 0
                add_rows(q[g * head_dim : (g + 1) * head_dim], k, head_dim, p)
                most[g], total[g] = _soften(p, valid, most[g], total[g], mine)
                add_rows(p, v, valid, mine)
        at = out_at + (token * kv_heads + head) * group * head_dim * size
        result = array_at(at, group * head_dim, like)
        for g in range(group):
            for i in range(g * head_dim, (g + 1) * head_dim):
                result[i] = narrow(out[i] / total[g], result)


@jit
def _soften(p: Floats, valid: int, most: float, total: float, out: Floats) -> tuple[float, float]:
    """Turn a page's scores into weights against the largest score so far; rescale what was summed before.

    NOTE: The online softmax of FlashAttention (https://arxiv.org/abs/2205.14135).
    """
    larger = most
    for j in range(valid):
        larger = max(larger, p[j])
    for j in range(PAGE_TOKENS):
        p[j] = _exp(p[j] - larger)
    keep = _exp(most - larger)
    for i in range(len(out)):
        out[i] *= keep
    total *= keep
    for j in range(valid):
        total += p[j]
    return larger, total


@jit
def _exp(x: Any) -> Any:
    """e ** x for x <= 0 within 2e-7 of itself; a polynomial, so that LLVM vectorises it. NaN stays NaN."""
    t = x * np.float32(1.4426950408889634)
    t = np.float32(-126) if t < np.float32(-126) else t
    whole = np.floor(t + np.float32(0.5))
    f = t - whole  # 2 ** f by its series about 0, |f| <= 1/2
    y = np.float32(0.0001535336188319500)
    y = y * f + np.float32(0.001339887440266574)
    y = y * f + np.float32(0.009618437357674640)
    y = y * f + np.float32(0.05550332471162809)
    y = y * f + np.float32(0.2402264791363012)
    y = y * f + np.float32(0.6931472028550421)
    return (y * f + np.float32(1)) * power_of_two(whole)


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

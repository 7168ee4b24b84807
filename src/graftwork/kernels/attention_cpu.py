"""Paged attention on CPUs: one kernel call for all rows, whether they decode or compute a prompt."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from graftwork.kernels import attention_tiles, matrix_tiles
from graftwork.kernels.attention import BLOCK_QUERIES, PAGE_TOKENS, PANEL, AttentionRows
from graftwork.kernels.attention_tiles import MATRIX_TOKENS, SPARE_LINES, VECTOR_TOKENS
from graftwork.kernels.exponentials import exp_negative, largest, weigh
from graftwork.kernels.jit import (
    BFLOAT16,
    FLOAT32,
    Elements,
    array_at,
    float_at,
    float_bits,
    ints_at,
    jit,
    line_at,
    narrow,
    take_number,
    widen,
)
from graftwork.kernels.matrix_tiles import has_registers
from graftwork.kernels.parallel import Call, ParallelKernel, launch
from graftwork.kernels.vectors import CACHE_LINE

Float = float | np.float32
Add = Callable[..., None]
Leave = Callable[[int], None]

_SCORES = 4 * PAGE_TOKENS  # bytes of a line's scores against a page
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
    kv_heads, head_dim = keys.shape[2], q.shape[2]
    blocks, columns = rows.blocks.shape
    in_matrices = q.dtype == torch.bfloat16 and has_registers() and not head_dim % MATRIX_TOKENS
    kernel = _ATTEND_IN_MATRICES if in_matrices else _ATTEND
    return (
        kernel.compiled(q.dtype),
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
    if dtype == torch.bfloat16 and has_registers():
        _ATTEND_IN_MATRICES.compiled(dtype)


def layer_place(pages: Tensor, layer: int) -> tuple[int, int]:
    """Where a layer begins in the first page, and how many elements lie from one page to the next."""
    page, line, *within = pages.stride()
    if not layer:  # once a step
        _, pairs, columns, _ = pages.shape[3:]
        assert within == [math.prod(pages.shape[3:]), pairs * columns * 2, columns * 2, 2, 1], "one block"
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
    run = run_of(jobs)
    while True:
        first = take_number(arguments) * run
        if first >= jobs:
            break
        for token in range(first, min(first + run, jobs)):
            for head in range(kv_heads):
                k = array_at(k_at + (token * k_stride + head * k_head) * size, head_dim, like)
                v = array_at(v_at + (token * v_stride + head * v_head) * size, head_dim, like)
                to_k = array_at(keys_at + (page[token] * keys_stride + head * block) * size, block, like)
                to_v = array_at(values_at + (page[token] * values_stride + head * block) * size, block, like)
                put(k, v, to_k, to_v, offset[token])


@jit
def run_of(tokens: int) -> int:
    """How many tokens a thread takes at once: neighbours in a prompt share their page's cache lines."""
    return max(1, min(32, tokens // 8))


@jit
def put(k: Elements, v: Elements, keys: Elements, values: Elements, offset: int) -> None:
    """One head's key and value [head_dim] of a token to their place in that head's blocks of a page."""
    to = 2 * (offset // PANEL * PANEL * len(k) // 2 + offset % PANEL)
    for i in range(0, len(k), 2):
        keys[to + i * PANEL] = k[i]
        keys[to + i * PANEL + 1] = k[i + 1]
    columns = columns_of(len(v))
    for panel in range(len(v) // columns):
        to = (panel * PAGE_TOKENS // 2 + offset // 2) * 2 * columns + offset % 2
        for i in range(columns):
            values[to + 2 * i] = v[panel * columns + i]


@jit
def columns_of(head_dim: int) -> int:
    """Of a panel of values, as in `page_shapes`."""
    columns = PANEL
    while head_dim % columns:
        columns //= 2
    return columns


@jit
def _attend(arguments: int, like: Elements, numbers: Elements, add: Add, at_once: int, leave: Leave) -> None:
    """`add` takes its weights as elements like `numbers`, and the values of `at_once` tokens at a time."""
    a = ints_at(arguments, 15)
    jobs, table_at, table_stride, q_at, q_stride, q_head, out_at, keys_at, keys_stride = a[1:10]
    values_at, values_stride, kv_heads, group, head_dim = a[10:15]
    scale = np.float32(float_at(arguments + 15 * 8))
    size, number_size = like.itemsize, numbers.itemsize
    block = head_dim * PAGE_TOKENS
    most_lines = BLOCK_QUERIES * group + SPARE_LINES  # a line is one query head of one token
    most = np.empty(most_lines, np.float32)
    total = np.empty(most_lines, np.float32)
    q_line, p_line, out_line, score_line = head_dim * number_size, PAGE_TOKENS * number_size, head_dim * 4, _SCORES
    most_bytes = most_lines * (q_line + p_line + out_line + score_line) + at_once * head_dim * size
    own = np.zeros(most_bytes // 8 + CACHE_LINE, np.int64)
    room = line_at(own.ctypes.data)
    lines_q = line_at(room + CACHE_LINE)
    lines_p = line_at(lines_q + most_lines * q_line)
    sums = line_at(lines_p + most_lines * p_line)
    scores_at = line_at(sums + most_lines * out_line)
    last_values = line_at(scores_at + most_lines * score_line)
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
                mine = array_at(lines_q + line * q_line, head_dim, numbers)
                for i in range(head_dim):
                    mine[i] = narrow(widen(given[i]), mine)
            array_at(sums, lines * head_dim, FLOAT32)[:] = 0
            most[:lines] = -np.inf
            total[:lines] = 0
            last = (place + queries - 1) // PAGE_TOKENS
            for number in range(last + 1):
                page = row[3 + number]
                keys = keys_at + (page * keys_stride + head * block) * size
                values = values_at + (page * values_stride + head * block) * size
                begin = number * PAGE_TOKENS
                array_at(scores_at, lines * PAGE_TOKENS, FLOAT32)[:] = 0
                add(lines_q, q_line, keys, PANEL * head_dim * size, PAGE_TOKENS // PANEL, PANEL, head_dim // 2,
                    scores_at, score_line, lines, values - keys, room, like)  # fmt: skip
                for line in range(lines):
                    valid = min(max(place + line // group + 1 - begin, 0), PAGE_TOKENS)
                    scores = scores_at + line * score_line
                    mine = array_at(sums + line * out_line, head_dim, FLOAT32)
                    p = array_at(lines_p + line * p_line, PAGE_TOKENS, numbers)
                    most[line], total[line] = _soften(scores, valid, scale, most[line], total[line], p, mine)
                after = row[3] * keys_stride + (head + 1) * block  # what is read next: the next head, or page
                if number < last:
                    after = row[4 + number] * keys_stride + head * block
                ahead = keys_at + after * size - values
                count = min(place + queries - begin, PAGE_TOKENS)
                _add_values(lines_p, p_line, values, count, head_dim, sums, lines, ahead, last_values, room, like,
                            number_size, add, at_once)  # fmt: skip
            for line in range(lines):
                at = out_at + (((token + line // group) * kv_heads + head) * group + line % group) * head_dim * size
                result = array_at(at, head_dim, like)
                mine = array_at(sums + line * out_line, head_dim, FLOAT32)
                share = np.float32(1) / total[line]
                for i in range(head_dim):
                    result[i] = narrow(mine[i] * share, result)
    leave(room)
    own[0] = 0  # so that it is there until now


@jit
def _add_values(
    lines_p: int, p_line: int, values: int, count: int, head_dim: int, sums: int, lines: int, ahead: int,
    last_values: int, room: int, like: Elements, number_size: int, add: Add, at_once: int,
) -> None:  # fmt: skip
    """Add a page's first `count` values by their weights; what fills no product goes to `last_values` first."""
    columns = columns_of(head_dim)
    panels, whole, size = head_dim // columns, count - count % at_once, like.itemsize
    panel_bytes, few_bytes, line = PAGE_TOKENS * columns * size, at_once * columns * size, head_dim * 4
    add(lines_p, p_line, values, panel_bytes, panels, columns, whole // 2, sums, line, lines, ahead, room, like)
    if whole == count:
        return
    for panel in range(panels):
        few = array_at(last_values + panel * few_bytes, at_once * columns, like)
        _take_last(values + whole * columns * size + panel * panel_bytes, count - whole, few, columns)
    p = lines_p + whole * number_size
    add(p, p_line, last_values, few_bytes, panels, columns, at_once // 2, sums, line, lines, 0, room, like)


@jit
def _take_last(panel_at: int, count: int, to: Elements, columns: int) -> None:
    """The last values of a row, with zeros for tokens that are not there: pages hold anything in their place."""
    given = array_at(panel_at, (count + 1) // 2 * 2 * columns, to)
    whole = count // 2 * 2 * columns
    to[:whole] = given[:whole]
    to[whole:] = 0
    if count % 2:
        for i in range(whole, whole + 2 * columns, 2):
            to[i] = given[i]


@jit
def _soften(
    scores: int, valid: int, scale: Float, most: Float, total: Float, p: Elements, out: Elements
) -> tuple[Float, Float]:
    """Turn a page's scores into weights against the largest score so far; rescale what was summed before.

    NOTE: The online softmax of FlashAttention (https://arxiv.org/abs/2205.14135).
    """
    if valid == 0:  # the page lies in this line's future
        p[:] = 0
        return most, total
    larger = max(most, largest(scores, valid) * scale)
    weighed = weigh(scores, valid, scale, larger, p.ctypes.data, p)
    keep = exp_negative(most - larger)
    if keep != 1:
        for i in range(len(out)):
            out[i] *= keep
    return larger, total * keep + weighed


def _write_bfloat16(arguments: int) -> None:
    _write(arguments, BFLOAT16)


def _write_float32(arguments: int) -> None:
    _write(arguments, FLOAT32)


def _attend_bfloat16(arguments: int) -> None:
    _attend(arguments, BFLOAT16, FLOAT32, attention_tiles.add_in_vectors, VECTOR_TOKENS, attention_tiles.stay)


def _attend_float32(arguments: int) -> None:
    _attend(arguments, FLOAT32, FLOAT32, attention_tiles.add_in_vectors, VECTOR_TOKENS, attention_tiles.stay)


def _attend_in_matrices(arguments: int) -> None:
    _attend(arguments, BFLOAT16, BFLOAT16, attention_tiles.add_in_matrices, MATRIX_TOKENS, matrix_tiles.leave)


_WRITE = ParallelKernel(_write_bfloat16, _write_float32)
_ATTEND = ParallelKernel(_attend_bfloat16, _attend_float32)
_ATTEND_IN_MATRICES = ParallelKernel(_attend_in_matrices, _attend_float32)

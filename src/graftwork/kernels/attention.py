"""Attention over paged keys and values: the types, and the plain torch truth.

NOTE: Pages are vLLM's idea (https://arxiv.org/abs/2309.06180). Within a page, keys [head_dim, tokens] and values
[tokens, head_dim] are the matrices that queries and weights are multiplied by. Both lie as processors read them that
multiply bfloat16 by pairs: two neighbouring rows as one of pairs, and 16 columns of it behind one another, a panel, so
that a product reads its memory from end to end.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from graftwork.kernels.jit import address

PAGE_TOKENS = 64
PANEL = 16  # columns of a panel, or what divides them too where a head has fewer
BLOCK_QUERIES = 8  # new tokens of a row that read its keys and values together


def page_shapes(head_dim: int) -> tuple[tuple[int, int, int, int], tuple[int, int, int, int]]:
    """The shapes of one head's keys and values within one layer of a page: [panels, pairs, columns, 2] of both."""
    columns = math.gcd(head_dim, PANEL)
    return (PAGE_TOKENS // PANEL, head_dim // 2, PANEL, 2), (head_dim // columns, PAGE_TOKENS // 2, columns, 2)


@dataclass(frozen=True)
class AttentionRows:
    """Where each row's new tokens lie in the flattened batch, and where all its tokens lie in the pages.

    The derived arrays are made once per step, on first use. Every row has at least one new token.
    """

    query_start: npt.NDArray[np.int32]  # [rows + 1]: row i's new tokens run from query_start[i] to the next
    context_len: npt.NDArray[np.int32]  # [rows]: tokens in the cache, this step's included
    page_table: npt.NDArray[np.int32]  # [rows, max_pages]: page ids, in order; unused places hold anything

    @cached_property
    def query_len(self) -> npt.NDArray[np.int32]:  # [rows]
        """New tokens of each row."""
        return np.diff(self.query_start)

    @cached_property
    def positions(self) -> npt.NDArray[np.int64]:  # [tokens]
        """Each new token's place in its own row: the last new token sits at context_len - 1."""
        first = self.context_len.astype(np.int64) - self.query_start[1:]
        return np.arange(self.query_start[-1], dtype=np.int64) + np.repeat(first, self.query_len)

    @cached_property
    def places(self) -> npt.NDArray[np.int64]:  # [2, tokens]
        """For each new token the page it is written to, and its place within that page."""
        row = np.repeat(np.arange(len(self.context_len)), self.query_len)
        page = self.page_table[row, self.positions // PAGE_TOKENS]
        return np.stack([page.astype(np.int64), self.positions % PAGE_TOKENS])

    @cached_property
    def blocks(self) -> npt.NDArray[np.int64]:  # [blocks, 3 + max_pages]
        """The rows cut into blocks of queries: a block's first token in the batch, how many tokens it has, the first
        one's place in its row, the row's page ids. The longest come first, so that no thread ends with them."""
        count = -(-self.query_len // BLOCK_QUERIES)
        row = np.repeat(np.arange(len(count)), count)
        begin = (np.arange(len(row)) - np.repeat(np.cumsum(count) - count, count)) * BLOCK_QUERIES
        place = (self.context_len - self.query_len)[row] + begin
        queries = np.minimum(self.query_len[row] - begin, BLOCK_QUERIES)
        head = np.stack([self.query_start[:-1][row] + begin, queries, place], axis=1)
        order = np.argsort(-(place + queries), kind="stable")
        return np.concatenate([head, self.page_table[row]], axis=1, dtype=np.int64)[order]

    @cached_property
    def places_at(self) -> int:
        """The address of `places`."""
        return address(self.places)

    @cached_property
    def blocks_at(self) -> int:
        """The address of `blocks`."""
        return address(self.blocks)

    @cached_property
    def tokens_read(self) -> int:
        """Tokens of the cache that the blocks read, one after another."""
        return int((self.blocks[:, 1] + self.blocks[:, 2]).sum())


def write_kv(k: Tensor, v: Tensor, keys: Tensor, values: Tensor, layer: int, rows: AttentionRows) -> None:
    """Put this step's keys and values, both [tokens, kv_heads, head_dim], into their pages of one layer."""
    page, offset = torch.from_numpy(rows.places)
    keys[page, layer, :, offset // PANEL, :, offset % PANEL] = k.view(*k.shape[:2], -1, 2)
    values[page, layer, :, :, offset // 2, :, offset % 2] = v.view(*v.shape[:2], -1, values.shape[5])


def attend(q: Tensor, keys: Tensor, values: Tensor, layer: int, rows: AttentionRows, scale: float) -> Tensor:
    """Causal, grouped-query attention of each row's new tokens over that row's own tokens, in float32.

    q is [tokens, heads, head_dim] and so is the result; query head h reads kv head h // (heads / kv_heads).
    """
    out = torch.empty_like(q, memory_format=torch.contiguous_format)
    for row, length in enumerate(rows.context_len.tolist()):
        new = slice(int(rows.query_start[row]), int(rows.query_start[row + 1]))
        pages = torch.from_numpy(rows.page_table[row, : -(-length // PAGE_TOKENS)].astype(np.int64))
        k, v = _gather(keys, values, layer, pages, length)  # [kv_heads, length, head_dim]
        out[new] = _attend_row(q[new].float(), k.float(), v.float(), scale).to(q.dtype)
    return out


def _gather(keys: Tensor, values: Tensor, layer: int, pages: Tensor, length: int) -> tuple[Tensor, Tensor]:
    """One row's keys and values as [kv_heads, length, head_dim], copied out of its pages."""
    k = keys[pages, layer].permute(1, 0, 2, 4, 3, 5).flatten(4).flatten(1, 3)
    v = values[pages, layer].permute(1, 0, 3, 5, 2, 4).flatten(4).flatten(1, 3)
    return k[:, :length], v[:, :length]


def _attend_row(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    """q [new, heads, head_dim] over k and v [kv_heads, length, head_dim]; the new tokens are the last."""
    new, heads, _ = q.shape
    length = k.shape[1]
    k = k.repeat_interleave(heads // k.shape[0], dim=0)  # [heads, length, head_dim]
    v = v.repeat_interleave(heads // v.shape[0], dim=0)
    scores = (q.transpose(0, 1) @ k.transpose(1, 2)) * scale  # [heads, new, length]
    future = torch.ones(new, length, dtype=torch.bool, device=q.device).triu(length - new + 1)
    return (scores.masked_fill(future, float("-inf")).softmax(-1) @ v).transpose(0, 1)

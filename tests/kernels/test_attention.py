"""Each attention path against float64 over plain, unpaged keys and values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from graftwork.kernels import attention_cpu, matrix_tiles
from graftwork.kernels.attention import PAGE_TOKENS, AttentionRows, page_shapes
from graftwork.kernels.select import Kernels, kernels_for
from support.scale import times


def _attend_in_vectors(*arguments: Any) -> Tensor:
    """As where there are no matrix registers."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attention_cpu, "has_registers", lambda: False)
        return attention_cpu.attend(*arguments)


CPU = {"cpu": kernels_for("cpu"), "vectors": replace(kernels_for("cpu"), attend=_attend_in_vectors)}
ALL = {"reference": kernels_for("reference"), **CPU}
ON_CPU = pytest.mark.parametrize("kernels", CPU.values(), ids=CPU)
WAYS = pytest.mark.parametrize("kernels", ALL.values(), ids=ALL)
DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
HEADS = (
    (4, 2, 2),
    (4, 4, 16),
    (6, 3, 20),
    (7, 1, 32),
    (9, 3, 64),
    (16, 1, 96),
    (8, 1, 128),
)  # (heads, kv_heads, head_dim)


@dataclass
class Conversation:
    """Rows with all their tokens, and a cache of scattered pages full of NaN that they are written to."""

    heads: int
    kv_heads: int
    head_dim: int
    lengths: Sequence[int]
    dtype: torch.dtype
    layers: int = 2
    seed: int = 0
    rounds: bool = False  # as the last step was computed

    def __post_init__(self) -> None:
        generator = torch.Generator().manual_seed(self.seed)
        need = [-(-length // PAGE_TOKENS) for length in self.lengths]
        half = self.layers * self.kv_heads * self.head_dim * PAGE_TOKENS
        pool = torch.full((sum(need) + 2, 2 * half + 8), float("nan"), dtype=self.dtype)
        pages = len(pool)
        keys, values = page_shapes(self.head_dim)
        self.keys = pool[:, :half].view(pages, self.layers, self.kv_heads, *keys)
        self.values = pool[:, half : 2 * half].view(pages, self.layers, self.kv_heads, *values)
        free = torch.randperm(len(pool), generator=generator).tolist()
        self.pages = np.full((len(need), max(need) + 1), -(10**6), np.int32)
        for row, count in enumerate(need):
            self.pages[row, :count] = [free.pop() for _ in range(count)]
        self.q = [self._random(length, self.heads, generator) for length in self.lengths]
        self.k = [self._random(length, self.kv_heads, generator) for length in self.lengths]
        self.v = [self._random(length, self.kv_heads, generator) for length in self.lengths]

    def _random(self, length: int, heads: int, generator: torch.Generator) -> Tensor:
        return torch.randn(length, heads, self.head_dim, generator=generator).to(self.dtype)

    def step(
        self, kernels: Kernels, begin: Sequence[int], end: Sequence[int], which: Sequence[int], layer: int = 1
    ) -> list[Tensor]:
        """Run tokens begin[row]:end[row] of the rows in `which`; returns each row's output."""
        new = [end[row] - begin[row] for row in which]
        rows = AttentionRows(
            np.cumsum([0, *new]).astype(np.int32),
            np.array([end[row] for row in which], np.int32),
            self.pages[list(which)],
        )
        q, k, v = (torch.cat([t[row][begin[row] : end[row]] for row in which]) for t in (self.q, self.k, self.v))
        kernels.write_kv(k, v, self.keys, self.values, layer, rows)
        self.rounds = kernels is CPU["cpu"] and matrix_tiles.has_registers() and not self.head_dim % 32
        out = kernels.attend(q, self.keys, self.values, layer, rows, self.head_dim**-0.5)
        assert out.is_contiguous()
        return list(torch.split(out, new))

    def exact(self, row: int, begin: int, end: int, dtype: torch.dtype = torch.float64) -> Tensor:
        """Row's output for tokens begin:end [end - begin, heads, head_dim], computed in `dtype`."""
        repeat = self.heads // self.kv_heads
        q = self.q[row][:end].to(dtype).transpose(0, 1)
        k = self.k[row][:end].to(dtype).transpose(0, 1).repeat_interleave(repeat, 0)
        v = self.v[row][:end].to(dtype).transpose(0, 1).repeat_interleave(repeat, 0)
        scores = q @ k.transpose(1, 2) * self.head_dim**-0.5
        future = torch.ones(end, end, dtype=torch.bool).triu(1)
        out: Tensor = scores.masked_fill(future, float("-inf")).softmax(-1) @ v
        return out.transpose(0, 1)[begin:]

    def check(self, row: int, begin: int, end: int, got: Tensor) -> None:
        want = self.exact(row, begin, end)
        if self.dtype == torch.float32:
            torch.testing.assert_close(got.double(), want, atol=3e-6, rtol=0)
        else:  # one rounding of the result; matrix registers take rounded weights, and so does torch's SDPA
            alone = 5e-3 if self.rounds else 1e-3
            atol = alone if end - begin == 1 else 1.5e-2
            torch.testing.assert_close(got.double(), want, atol=atol, rtol=2**-7)


@WAYS
@DTYPES
@given(
    shape=st.sampled_from(HEADS),
    rows=st.lists(
        st.tuples(st.sampled_from((0, 0, 1, 20, 63, 64, 65, 127)), st.sampled_from((1, 1, 1, 2, 30, 64, 90))),
        min_size=1,
        max_size=6,
    ),
    seed=st.integers(0, 1000),
)
@settings(max_examples=times(20, 300), deadline=None)
def test_rows_with_and_without_a_past_agree_with_float64(
    kernels: Kernels, dtype: torch.dtype, shape: tuple[int, int, int], rows: list[tuple[int, int]], seed: int
) -> None:
    heads, kv_heads, head_dim = shape
    past = [p for p, _ in rows]
    total = [p + n for p, n in rows]
    talk = Conversation(heads, kv_heads, head_dim, total, dtype, seed=seed)
    if earlier := [row for row, p in enumerate(past) if p]:
        talk.step(kernels, [0] * len(rows), past, earlier)
    for row, got in enumerate(talk.step(kernels, past, total, range(len(rows)))):
        talk.check(row, past[row], total[row], got)


@WAYS
@DTYPES
def test_token_by_token_agrees_with_one_pass(kernels: Kernels, dtype: torch.dtype) -> None:
    talk = Conversation(6, 3, 20, [70, 130], dtype)
    talk.step(kernels, [0, 0], [60, 120], [0, 1])
    for done in range(10):
        begin, end = [60 + done, 120 + done], [61 + done, 121 + done]
        for row, got in enumerate(talk.step(kernels, begin, end, [0, 1])):
            talk.check(row, begin[row], end[row], got)


@WAYS
@DTYPES
def test_nan_stays_in_its_row(kernels: Kernels, dtype: torch.dtype) -> None:
    lengths = [80, 80, 80, 80]
    talk = Conversation(9, 3, 64, lengths, dtype)
    talk.k[1][3] = float("nan")
    talk.v[2][40] = float("inf")
    talk.v[2][41] = float("-inf")
    past = [0, 79, 79, 79]
    talk.step(kernels, [0] * 4, past, [1, 2, 3])
    out = talk.step(kernels, past, lengths, range(4))
    assert out[1].isnan().all()
    assert out[2].isnan().all()
    talk.check(0, 0, 80, out[0])
    talk.check(3, 79, 80, out[3])


@WAYS
@DTYPES
def test_a_row_has_the_same_bits_alone_and_in_a_batch(kernels: Kernels, dtype: torch.dtype) -> None:
    lengths, past = [150, 90, 40, 66], [149, 89, 0, 5]
    talk = Conversation(9, 3, 64, lengths, dtype)
    talk.step(kernels, [0] * 4, past, [0, 1, 3])
    together = talk.step(kernels, past, lengths, range(4))
    for row in range(4):
        assert torch.equal(talk.step(kernels, past, lengths, [row])[0], together[row])


@ON_CPU
@DTYPES
@given(shape=st.sampled_from(HEADS), cuts=st.sets(st.integers(1, 149), max_size=6), seed=st.integers(0, 99))
@settings(max_examples=times(20, 300), deadline=None)
def test_a_token_has_the_same_bits_however_its_row_is_cut(
    kernels: Kernels, dtype: torch.dtype, shape: tuple[int, int, int], cuts: set[int], seed: int
) -> None:
    talk = Conversation(*shape, [150], dtype, seed=seed)
    whole = talk.step(kernels, [0], [150], [0])[0]
    pieces = [talk.step(kernels, [a], [b], [0])[0] for a, b in pairwise([0, *sorted(cuts), 150])]
    assert torch.equal(torch.cat(pieces), whole)


@DTYPES
def test_threads_change_no_bit_of_one_token_rows(dtype: torch.dtype, request: pytest.FixtureRequest) -> None:
    kernels, lengths = kernels_for("cpu"), [150, 90, 40, 66]
    past = [length - 1 for length in lengths]
    talk = Conversation(9, 3, 64, lengths, dtype)
    talk.step(kernels, [0] * 4, past, range(4))
    alone = talk.step(kernels, past, lengths, range(4))
    request.getfixturevalue("three_threads")
    for _ in range(20):
        for got, want in zip(talk.step(kernels, past, lengths, range(4)), alone, strict=True):
            assert torch.equal(got, want)


@WAYS
@DTYPES
def test_one_large_score_does_not_overflow(kernels: Kernels, dtype: torch.dtype) -> None:
    talk = Conversation(4, 4, 16, [100], dtype)
    talk.q[0][99] = 60.0
    talk.k[0][70] = 60.0
    talk.k[0][10] = -60.0
    talk.step(kernels, [0], [99], [0])
    got = talk.step(kernels, [99], [100], [0])[0]
    torch.testing.assert_close(got[0], talk.v[0][70])


@WAYS
def test_other_layers_and_pages_are_left_alone(kernels: Kernels) -> None:
    talk = Conversation(4, 4, 16, [70, 3], torch.float32)
    talk.step(kernels, [0, 0], [70, 3], [0, 1])
    assert talk.keys[:, 0].isnan().all()
    assert talk.values[:, 0].isnan().all()
    written = 73 * 4 * 16
    assert (~talk.keys.isnan()).sum() == written
    assert (~talk.values.isnan()).sum() == written


@WAYS
@DTYPES
def test_q_k_and_v_may_be_columns_of_a_fused_tensor(kernels: Kernels, dtype: torch.dtype) -> None:
    talk = Conversation(6, 3, 20, [5, 1], dtype)
    split = talk.step(kernels, [0, 0], [5, 1], [0, 1])
    parts = [torch.cat([t[row] for row in (0, 1)]).flatten(1) for t in (talk.q, talk.k, talk.v)]
    fused = torch.cat(parts, dim=1)  # [tokens, (heads + 2 kv_heads) head_dim]
    q, k, v = torch.split(fused, [120, 60, 60], dim=1)
    rows = AttentionRows(np.array([0, 5, 6], np.int32), np.array([5, 1], np.int32), talk.pages)
    keys, values = torch.empty_like(talk.keys), torch.empty_like(talk.values)
    kernels.write_kv(k.view(6, 3, 20), v.view(6, 3, 20), keys, values, 0, rows)
    got = kernels.attend(q.view(6, 6, 20), keys, values, 0, rows, 20**-0.5)
    torch.testing.assert_close(got, torch.cat(split))


@WAYS
@DTYPES
def test_q_k_and_v_may_have_their_heads_first(kernels: Kernels, dtype: torch.dtype) -> None:
    talk = Conversation(6, 3, 20, [5, 1], dtype)
    want = torch.cat(talk.step(kernels, [0, 0], [5, 1], [0, 1]))
    q, k, v = (
        torch.cat([t[row] for row in (0, 1)]).transpose(0, 1).contiguous().transpose(0, 1)
        for t in (talk.q, talk.k, talk.v)
    )
    rows = AttentionRows(np.array([0, 5, 6], np.int32), np.array([5, 1], np.int32), talk.pages)
    keys, values = torch.empty_like(talk.keys), torch.empty_like(talk.values)
    kernels.write_kv(k, v, keys, values, 0, rows)
    torch.testing.assert_close(kernels.attend(q, keys, values, 0, rows, 20**-0.5), want)

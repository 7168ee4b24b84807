"""The small operations of a Llama layer: the CPU path against the plain torch truth."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from graftwork.kernels.attention import PAGE_TOKENS, AttentionRows, page_shapes
from graftwork.kernels.decoder import Heads, Rotary
from graftwork.kernels.select import kernels_for
from support.scale import times

CPU, TRUTH = kernels_for("cpu"), kernels_for("reference")
DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
TOKENS = st.sampled_from((1, 2, 7, 90))


def random(*shape: int, seed: int, dtype: torch.dtype, scale: float = 1.0) -> Tensor:
    return (torch.randn(*shape, generator=torch.Generator().manual_seed(seed)) * scale).to(dtype)


def close(got: Tensor, want: Tensor) -> None:
    """Equal but for the last place: both round once, sums in another order."""
    rtol = 2e-6 if want.dtype == torch.float32 else 2**-7
    torch.testing.assert_close(got, want, rtol=rtol, atol=1e-6 if want.dtype == torch.float32 else 1e-4)


@DTYPES
@given(tokens=TOKENS, hidden=st.sampled_from((1, 30, 64, 576)), first=st.booleans(), seed=st.integers(0, 99))
@settings(max_examples=times(30, 300), deadline=None)
def test_a_sum_and_its_norm(dtype: torch.dtype, tokens: int, hidden: int, first: bool, seed: int) -> None:
    residual = random(tokens, hidden, seed=seed, dtype=dtype, scale=3)
    delta = None if first else random(tokens, hidden, seed=seed + 1, dtype=dtype)
    weight = random(hidden, seed=seed + 2, dtype=torch.float32)
    truth, mine = residual.clone(), residual.clone()
    close(CPU.add_norm(mine, delta, weight, 1e-5), TRUTH.add_norm(truth, delta, weight, 1e-5))
    assert torch.equal(mine, truth)
    assert torch.equal(mine, residual if delta is None else residual + delta)


@DTYPES
@pytest.mark.parametrize("hidden", [30, 576])
def test_a_token_has_the_same_bits_alone(dtype: torch.dtype, hidden: int) -> None:
    residual, delta = (random(40, hidden, seed=seed, dtype=dtype) for seed in (1, 2))
    weight = random(hidden, seed=3, dtype=torch.float32)
    norms = CPU.add_norm(residual.clone(), delta, weight, 1e-5)
    gated = CPU.gated(residual)
    for token in range(40):
        one = slice(token, token + 1)
        assert torch.equal(CPU.add_norm(residual[one].clone(), delta[one], weight, 1e-5), norms[one])
        assert torch.equal(CPU.gated(residual[one].clone()), gated[one])


@DTYPES
def test_the_norm_is_transformers(dtype: torch.dtype) -> None:
    from transformers.models.llama.modeling_llama import LlamaRMSNorm

    norm = LlamaRMSNorm(96, eps=1e-5).to(dtype)
    norm.weight.data = random(96, seed=1, dtype=dtype)
    x = random(5, 96, seed=2, dtype=dtype)
    got = CPU.add_norm(x.clone(), None, norm.weight.data.float(), 1e-5)
    torch.testing.assert_close(got, norm(x).detach(), rtol=1e-6 if dtype == torch.float32 else 2**-6, atol=1e-6)


@DTYPES
@given(
    tokens=TOKENS, shape=st.sampled_from(((4, 4, 16), (9, 3, 64), (6, 2, 20), (2, 1, 128))),
    normed=st.booleans(), seed=st.integers(0, 99),
)  # fmt: skip
@settings(max_examples=times(30, 300), deadline=None)
def test_heads_are_turned_and_written(
    dtype: torch.dtype, tokens: int, shape: tuple[int, int, int], normed: bool, seed: int
) -> None:
    heads = Heads(*shape)
    table, q_norm, k_norm = (random(200, heads.head_dim, seed=seed + n, dtype=torch.float32) for n in range(3))
    rotary = Rotary(table, q_norm[0], k_norm[0], 1e-6) if normed else Rotary(table)
    qkv = random(tokens, (heads.queries + 2 * heads.keys) * heads.head_dim, seed=seed, dtype=dtype)
    past = seed  # one row: all tokens follow one another
    pages = -(-(past + tokens) // PAGE_TOKENS)
    rows = AttentionRows(
        np.array([0, tokens], np.int32),
        np.array([past + tokens], np.int32),
        np.random.default_rng(seed).permutation(pages).astype(np.int32)[None],
    )
    positions = torch.from_numpy(rows.positions)
    made = []
    for kernels in (TRUTH, CPU):
        keys = torch.zeros(pages, 2, heads.keys, *page_shapes(heads.head_dim)[0], dtype=dtype)
        values = torch.zeros(pages, 2, heads.keys, *page_shapes(heads.head_dim)[1], dtype=dtype)
        turned, written = qkv.clone(), qkv.clone()
        kernels.rotate(turned, heads, rotary, positions)
        kernels.rotate_and_write(written, heads, rotary, positions, keys, values, 1, rows)
        assert torch.equal(turned, written)
        assert not keys[:, 0].any()
        made.append((turned, keys, values))
    for got, want in zip(made[1], made[0], strict=True):
        close(got, want)


@DTYPES
@given(tokens=TOKENS, width=st.sampled_from((1, 17, 64, 1536)), scale=st.sampled_from((1.0, 50.0)))
@settings(max_examples=times(30, 300), deadline=None)
def test_the_gate(dtype: torch.dtype, tokens: int, width: int, scale: float) -> None:
    gate_up = random(tokens, 2 * width, seed=width, dtype=dtype, scale=scale)
    got = CPU.gated(gate_up)
    close(got, TRUTH.gated(gate_up))
    gate, up = gate_up.double().chunk(2, dim=-1)
    torch.testing.assert_close(got.double(), F.silu(gate) * up, rtol=2**-8, atol=1e-5)


@DTYPES
def test_a_token_that_is_not_finite_spoils_no_other(dtype: torch.dtype) -> None:
    gate_up, residual = random(3, 64, seed=1, dtype=dtype), random(3, 64, seed=2, dtype=dtype)
    weight = torch.ones(64)
    clean = CPU.gated(gate_up), CPU.add_norm(residual.clone(), None, weight, 1e-5)
    gate_up[1, 3], residual[1, 5] = float("nan"), float("nan")
    spoilt = CPU.gated(gate_up), CPU.add_norm(residual.clone(), None, weight, 1e-5)
    assert spoilt[0][1, 3].isnan()
    assert spoilt[1][1].isnan().all()
    for before, after in zip(clean, spoilt, strict=True):
        assert torch.equal(after[[0, 2]], before[[0, 2]])

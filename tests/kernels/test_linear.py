"""PackedLinear against F.linear, packed and not."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from graftwork.kernels.linear import PackedLinear, can_pack

DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
SHAPES = pytest.mark.parametrize("shape", [(5, 7), (192, 576), (1000, 64), (1, 33)], ids=str)


@pytest.fixture(params=["pairs", "onednn", "plain"])
def pack(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether to pack; "onednn" is what a processor gets that multiplies no pairs."""
    if request.param == "onednn":
        monkeypatch.setattr("graftwork.kernels.linear.can_pair", lambda weight: False)
    return bool(request.param != "plain")


@DTYPES
@SHAPES
def test_gives_its_weight_back_bit_for_bit(dtype: torch.dtype, shape: tuple[int, int], pack: bool) -> None:
    weight = torch.randn(shape).to(dtype)
    assert torch.equal(PackedLinear(weight, pack=pack).dense(), weight)


@DTYPES
@SHAPES
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
def test_multiplies_like_linear(dtype: torch.dtype, shape: tuple[int, int], pack: bool, bias: bool) -> None:
    weight = torch.randn(shape).to(dtype)
    offset = torch.randn(shape[0]).to(dtype) if bias else None
    linear = PackedLinear(weight, offset, pack=pack)
    for tokens in (0, 1, 2, 33):
        x = torch.randn(tokens, shape[1]).to(dtype)
        want = F.linear(x.double(), weight.double(), None if offset is None else offset.double())
        got = linear(x)
        assert got.dtype == dtype
        tolerance = 1e-4 if dtype == torch.float32 else 0.02
        torch.testing.assert_close(got.double(), want, atol=tolerance, rtol=2**-7)


@DTYPES
def test_takes_columns_of_a_wider_tensor(dtype: torch.dtype) -> None:
    linear = PackedLinear(torch.randn(24, 16).to(dtype))
    wide = torch.randn(3, 40).to(dtype)
    assert torch.equal(linear(wide[:, 8:24]), linear(wide[:, 8:24].contiguous()))


def test_counts_its_bytes() -> None:
    weight = torch.zeros(10, 6, dtype=torch.bfloat16)
    assert PackedLinear(weight).nbytes == 120
    assert PackedLinear(weight, torch.zeros(10, dtype=torch.bfloat16)).nbytes == 140


def test_does_not_pack_where_the_private_operators_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    weight = torch.randn(8, 4)
    monkeypatch.setattr("graftwork.kernels.linear.OPERATORS", ("_reorder_linear_weight", "no_such_operator"))
    assert not can_pack(weight)
    linear = PackedLinear(weight)
    assert not linear.packed
    x = torch.randn(3, 4)
    assert torch.equal(linear(x), F.linear(x, weight))


def test_does_not_pack_what_onednn_has_no_layout_for() -> None:
    assert not can_pack(torch.zeros(4, 4, dtype=torch.float64))
    assert not can_pack(torch.zeros(4, 4, device="meta"))

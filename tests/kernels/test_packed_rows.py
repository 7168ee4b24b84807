"""PackedRows against the plain matrix, bit for bit."""

from __future__ import annotations

import pytest
import torch

from graftwork.kernels.linear import PackedLinear
from graftwork.kernels.packed_rows import PackedRows

DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])


@pytest.fixture(autouse=True)
def no_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    """oneDNN's layout, whatever the processor has."""
    monkeypatch.setattr("graftwork.kernels.linear.can_pair", lambda weight: False)


@DTYPES
@pytest.mark.parametrize("shape", [(1, 33), (5, 7), (300, 64), (1000, 48), (70_001, 8)], ids=str)
def test_gives_every_row_bit_for_bit(dtype: torch.dtype, shape: tuple[int, int]) -> None:
    weight = torch.randn(shape).to(dtype)
    weight[-1, -1], weight[0, 0] = float("nan"), -0.0
    rows = PackedLinear(weight).rows()
    assert rows is not None
    wanted = torch.randint(0, shape[0], (50,))
    bits = torch.int32 if dtype == torch.float32 else torch.int16
    assert torch.equal(rows.gather(wanted).view(bits), weight[wanted].view(bits))
    assert rows.gather(wanted[:0]).shape == (0, shape[1])


def test_keeps_the_packed_matrix_alive() -> None:
    weight = torch.randn(512, 64)
    rows = PackedLinear(weight).rows()
    assert rows is not None
    assert torch.equal(rows.gather(torch.arange(512)), weight)


def test_a_layout_that_does_not_hold_what_it_should_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    linear = PackedLinear(torch.randn(64, 32))
    monkeypatch.setattr("graftwork.kernels.packed_rows._places", lambda shape, dtype, axis: torch.arange(shape[axis]))
    assert linear.rows() is None


def test_a_plain_linear_has_none() -> None:
    assert PackedLinear(torch.randn(8, 4), pack=False).rows() is None
    assert isinstance(PackedLinear(torch.randn(8, 4)).rows(), PackedRows)

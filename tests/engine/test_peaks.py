"""peaks: torch's own answer for any logits, whatever their signs, ties, infinities and NaNs."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from graftwork.engine.peaks import peaks

NUMBERS = st.one_of(
    st.sampled_from([0.0, -0.0, 1.0, -1.0, float("inf"), -float("inf"), float("nan"), 3e38, -3e38, 1e-40]),
    st.floats(-100, 100, width=16),
)
DTYPES = pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])


def check(logits: torch.Tensor) -> None:
    finite, tokens = peaks(logits)
    for row, fine, token in zip(logits.double(), finite, tokens, strict=True):
        assert fine == (not bool(row.isnan().any()) and bool(row.max().isfinite()))
        if fine:
            assert token == int((row == row.max()).nonzero()[0])


@DTYPES
@given(rows=st.integers(1, 5), numbers=st.lists(NUMBERS, min_size=5, max_size=60))
def test_it_is_the_first_of_the_largest(dtype: torch.dtype, rows: int, numbers: list[float]) -> None:
    width = len(numbers) // rows
    check(torch.tensor(numbers[: rows * width], dtype=torch.float64).view(rows, width).to(dtype))


@DTYPES
def test_a_nan_is_seen_whatever_its_sign_and_its_bits(dtype: torch.dtype) -> None:
    logits = torch.randn(4, 50, generator=torch.Generator().manual_seed(0)).to(dtype)
    logits[0, 7] = float("nan")
    logits[1, 7] = -torch.tensor(float("nan"))
    if dtype == torch.bfloat16:
        logits.view(torch.int16)[2, 7] = -1  # every bit set
        logits.view(torch.int16)[3, 7] = 0x7F81
    else:
        logits[2:, 7] = float("nan")
    assert peaks(logits)[0] == [False] * 4


@DTYPES
def test_rows_without_a_positive_logit_are_compared_too(dtype: torch.dtype) -> None:
    check(-torch.rand(3, 100, generator=torch.Generator().manual_seed(0)).to(dtype) - 1)
    check(torch.full((2, 10), -float("inf"), dtype=dtype))


@DTYPES
def test_rows_need_not_lie_side_by_side(dtype: torch.dtype) -> None:
    check(torch.randn(100, 6, generator=torch.Generator().manual_seed(0)).to(dtype).T)
    check(torch.randn(6, 100, generator=torch.Generator().manual_seed(0)).to(dtype)[::2, 3:90])

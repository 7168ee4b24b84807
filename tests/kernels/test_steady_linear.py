"""SteadyLinear: a row's bits are its own, whatever the library does."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from graftwork.errors import Refused
from graftwork.kernels.linear import PackedLinear
from graftwork.kernels.steady_linear import TILE, SteadyProducts

DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
PACK = pytest.mark.parametrize("pack", [True, False], ids=["packed", "plain"])
#: (in, out); from 1,024 elements on oneDNN adds up in another order where there is one row.
SHAPES = pytest.mark.parametrize("shape", [(64, 96), (1280, 64), (100, 50)], ids=str)


@pytest.fixture(autouse=True)
def library(monkeypatch: pytest.MonkeyPatch) -> None:
    """Products are the matmul library's, as where the processor multiplies no pairs."""
    for place in ("linear", "steady_linear"):
        monkeypatch.setattr(f"graftwork.kernels.{place}.can_pair", lambda weight: False)


def make(shape: tuple[int, int], dtype: torch.dtype) -> tuple[PackedLinear, Tensor]:
    """A steady product, and 150 rows for it."""
    draw = torch.Generator().manual_seed(1)
    weight = torch.randn(shape[::-1], generator=draw).to(dtype)
    return SteadyProducts()(weight, None), torch.randn(150, shape[0], generator=draw).to(dtype)


@DTYPES
@SHAPES
@PACK
def test_a_row_has_the_same_bits_in_any_company(
    dtype: torch.dtype, shape: tuple[int, int], pack: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not pack:
        monkeypatch.setattr("graftwork.kernels.linear.OPERATORS", ("no_such_operator",))
    linear, x = make(shape, dtype)
    assert linear.packed == pack
    alone = torch.cat([linear(row[None]) for row in x])

    @settings(max_examples=30)
    @given(st.sampled_from((0, 2, 3, 5, 9, 16, 20, 31, 33, 65, 100, 150)), st.integers(0, 99))
    def check(count: int, seed: int) -> None:
        some = torch.randperm(150, generator=torch.Generator().manual_seed(seed))[:count]
        assert torch.equal(linear(x[some]), alone[some])

    check()


@DTYPES
def test_it_is_the_product(dtype: torch.dtype) -> None:
    linear, x = make((1280, 64), dtype)
    torch.testing.assert_close(
        linear(x[:33]).double(), x[:33].double() @ linear.dense().double().T, atol=1e-3, rtol=0.01
    )


def test_numbers_of_rows_that_disagree_are_computed_in_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = PackedLinear.__call__

    def by_number(self: PackedLinear, x: Tensor) -> Tensor:
        return plain(self, x) + (0 if len(x) == TILE else len(x))

    monkeypatch.setattr(PackedLinear, "__call__", by_number)
    linear, x = make((64, 96), torch.float32)
    want = torch.cat([linear(row[None]) for row in x])
    for count in (0, 1, 15, 16, 17, 100, 150):
        assert torch.equal(linear(x[:count]), want[:count])


def test_what_was_found_out_holds_for_its_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """With two threads the library adds up each number of rows in its own way; with one it does not."""
    plain, threads = PackedLinear.__call__, [1]
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads[0])

    def by_number(self: PackedLinear, x: Tensor) -> Tensor:
        return plain(self, x) + (0 if threads[0] == 1 or len(x) == TILE else len(x))

    monkeypatch.setattr(PackedLinear, "__call__", by_number)
    linear, x = make((64, 96), torch.float32)
    for threads[0] in (1, 2, 1):
        want = torch.cat([linear(row[None]) for row in x])
        for count in (1, 2, 15, 17, 100):
            assert torch.equal(linear(x[:count]), want[:count])


def test_where_a_rows_place_in_a_tile_matters_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = PackedLinear.__call__
    monkeypatch.setattr(PackedLinear, "__call__", lambda self, x: plain(self, x) + torch.arange(len(x))[:, None])
    with pytest.raises(Refused, match="deterministic"):
        make((64, 96), torch.float32)

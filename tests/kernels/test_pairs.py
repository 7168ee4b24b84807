"""PairMatrix against float64, on any shape, row count and number of threads."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from graftwork.kernels import matrix_tiles, pairs_cpu
from graftwork.kernels.huge_pages import HugePages
from graftwork.kernels.linear import PackedLinear
from graftwork.kernels.pairs_cpu import PairMatrix, can_pair
from graftwork.kernels.program import Program
from support.scale import times

pytestmark = pytest.mark.pairs
OUTS, WIDTHS = (1, 31, 32, 33, 100, 192), (2, 30, 64, 576)


@pytest.fixture(params=["matrices", "vectors"], autouse=True, scope="module")
def registers(request: pytest.FixtureRequest) -> Iterator[None]:
    """Where the processor has both, each is tried; else vectors, twice."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "vectors":
            patch.setattr(matrix_tiles, "has_registers", lambda: False)
        yield


def random(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).bfloat16()


def close(got: Tensor, want: Tensor, terms: int) -> None:
    """One rounding to bfloat16, and float32's while summing."""
    torch.testing.assert_close(got.double(), want, rtol=2**-8, atol=1e-6 * terms)


@given(
    rows=st.integers(0, 80), out=st.sampled_from(OUTS), width=st.sampled_from(WIDTHS), biased=st.booleans(),
    seed=st.integers(0, 99),
)  # fmt: skip
@settings(max_examples=times(60, 600), deadline=None)
def test_multiplies(rows: int, out: int, width: int, biased: bool, seed: int) -> None:
    weight, x = random(out, width, seed=seed), random(rows, width, seed=seed + 1)
    bias = random(out, seed=seed + 2) if biased else None
    want = x.double() @ weight.double().T + (0 if bias is None else bias.double())
    close(PairMatrix(weight, bias, HugePages())(x), want, width)


@pytest.mark.parametrize("rows", [1, 7, 30])
def test_threads_share_the_outputs(rows: int, three_threads: None) -> None:
    weight, x = random(500, 64, seed=1), random(rows, 64, seed=2)
    close(PairMatrix(weight, None, HugePages())(x), x.double() @ weight.double().T, 64)


def test_with_fewer_threads_than_expected_all_is_done(three_threads: None) -> None:
    matrix, x, y = PairMatrix(random(500, 64, seed=1), None, HugePages()), random(5, 64, seed=2), random(5, 500, seed=3)
    call = matrix.call(x, y)
    torch.set_num_threads(1)
    Program([[call]]).run([call])
    assert torch.equal(y, matrix(x))


@pytest.mark.parametrize("rows", [2, 3, 8, 9, 17, 33, 64, 100])
def test_a_row_has_the_same_bits_alone_and_in_a_batch(rows: int) -> None:
    matrix, x = PairMatrix(random(192, 576, seed=1), random(192, seed=2), HugePages()), random(rows, 576, seed=3)
    together = matrix(x)
    assert all(torch.equal(matrix(x[row : row + 1])[0], together[row]) for row in range(rows))


def test_a_row_that_is_not_finite_leaves_the_others_alone() -> None:
    matrix, x = PairMatrix(random(64, 64, seed=1), None, HugePages()), random(9, 64, seed=2)
    want = matrix(x)
    x[4, 10] = float("nan")
    got = matrix(x)
    assert got[4].isnan().all()
    assert torch.equal(got[[0, 1, 2, 3, 5, 6, 7, 8]], want[[0, 1, 2, 3, 5, 6, 7, 8]])


@pytest.mark.parametrize("shape", [(1, 2), (33, 30), (192, 576)], ids=str)
def test_gives_its_weight_and_rows_back_bit_for_bit(shape: tuple[int, int]) -> None:
    weight = random(*shape, seed=1)
    weight[-1, -1], weight[0, 0] = float("nan"), -0.0
    matrix, wanted = PairMatrix(weight, None, HugePages()), torch.randint(0, shape[0], (50,))
    assert torch.equal(matrix.dense().view(torch.int16), weight.view(torch.int16))
    assert torch.equal(matrix.rows().gather(wanted).view(torch.int16), weight[wanted].view(torch.int16))


def test_other_weights_and_processors_are_left_to_onednn(monkeypatch: pytest.MonkeyPatch) -> None:
    weight = random(64, 32, seed=1)
    assert PackedLinear(weight).pairs is not None
    assert not can_pair(weight[:, :31])
    assert not can_pair(weight.float())
    monkeypatch.setattr(pairs_cpu, "has_pairs", lambda: False)
    plain = PackedLinear(weight)
    assert plain.pairs is None
    assert plain.packed


def test_what_the_kernel_cannot_read_is_not_given_to_it() -> None:
    matrix = PairMatrix(random(64, 32, seed=0), None, HugePages())
    for wrong in (torch.ones(2, 32), random(2, 30, seed=1), random(2, 64, seed=1)):
        with pytest.raises(AssertionError, match="kernel"):
            matrix(wrong)

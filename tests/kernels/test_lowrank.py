"""Each low-rank path against float64, over any mix of segments, ranks and base-only tokens."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from graftwork.kernels.lowrank import Group, LowRankSlots, Segment, lowrank_add, matrix
from graftwork.kernels.select import Kernels, kernels_for
from support.scale import times

RANKS = (0, 1, 3, 5, 8, 16, 48, 63, 64)
SHAPES = ((7, 5), (64, 105), (576, 192), (33, 130))  # (in, out), one per site
NAMES = ("reference", "cpu", "cpu-deterministic")
ALL = pytest.mark.parametrize("kernels", [kernels_for(name) for name in NAMES], ids=NAMES)
DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])


def make_slots(ranks: Sequence[Sequence[int]], dtype: torch.dtype, seed: int = 0) -> LowRankSlots:
    """Slots with `ranks[slot][site]`, their matrices one after another, a gap between them."""
    rank = np.array(ranks, np.int32)
    a, b = np.zeros(rank.shape, np.int64), np.zeros(rank.shape, np.int64)
    end = 3
    for slot, site in np.ndindex(*rank.shape):
        width_in, width_out = SHAPES[site]
        a[slot, site] = end
        b[slot, site] = end + rank[slot, site] * width_in
        end = int(b[slot, site] + rank[slot, site] * width_out) + 1
    generator = torch.Generator().manual_seed(seed)
    return LowRankSlots(rank, a, b, (torch.randn(end, generator=generator) * 0.3).to(dtype))


def alone(site: int) -> Group:
    """A site that shares its output with no other."""
    return Group((site,), (SHAPES[site][1],))


def batch(tokens: int, site: int, dtype: torch.dtype, seed: int = 1) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    width_in, width_out = SHAPES[site]
    x = torch.randn(tokens, width_in, generator=generator).to(dtype)
    return x, torch.randn(tokens, width_out, generator=generator).to(dtype)


def exact(x: Tensor, y: Tensor, site: int, segments: Sequence[Segment], slots: LowRankSlots) -> Tensor:
    """The result in float64."""
    want = y.double()
    for s in segments:
        r = int(slots.rank[s.slot, site])
        a = matrix(slots.pool, int(slots.a_offset[s.slot, site]), r, x.shape[1]).double()
        bt = matrix(slots.pool, int(slots.b_offset[s.slot, site]), r, y.shape[1]).double()
        want[s.start : s.stop] += x[s.start : s.stop].double() @ a.T @ bt
    return want


def plain(x: Tensor, y: Tensor, site: int, segments: Sequence[Segment], slots: LowRankSlots) -> Tensor:
    """What two matmuls of the serving dtype and an addition make of it: PEFT's arithmetic."""
    got = y.clone()
    for s in segments:
        r = int(slots.rank[s.slot, site])
        a = matrix(slots.pool, int(slots.a_offset[s.slot, site]), r, x.shape[1])
        bt = matrix(slots.pool, int(slots.b_offset[s.slot, site]), r, y.shape[1])
        got[s.start : s.stop] += x[s.start : s.stop] @ a.T @ bt
    return got


@st.composite
def segments_and_ranks(draw: st.DrawFn) -> tuple[int, list[Segment], list[list[int]]]:
    """Tokens of a batch, sorted disjoint segments with gaps, and ranks of up to four slots."""
    slots = draw(st.integers(1, 4))
    ranks = draw(
        st.lists(
            st.lists(st.sampled_from(RANKS), min_size=len(SHAPES), max_size=len(SHAPES)),
            min_size=slots,
            max_size=slots,
        )
    )
    segments, end = [], 0
    for _ in range(draw(st.integers(0, 6))):
        start = end + draw(st.integers(0, 3))
        end = start + draw(st.sampled_from((0, 1, 1, 1, 2, 7, 8, 9, 15, 16, 33, 64, 65, 130)))
        segments.append(Segment(start, end, draw(st.integers(0, slots - 1))))
    return end + draw(st.integers(1, 3)), segments, ranks


@ALL
@DTYPES
@given(case=segments_and_ranks(), seed=st.integers(0, 1000))
@settings(max_examples=times(25, 300), deadline=None)
def test_no_farther_from_exact_than_plain_matmuls(
    kernels: Kernels, dtype: torch.dtype, case: tuple[int, list[Segment], list[list[int]]], seed: int
) -> None:
    tokens, segments, ranks = case
    slots = make_slots(ranks, dtype, seed)
    plan = kernels.prepare(segments, slots)
    for site in range(len(SHAPES)):
        x, y = batch(tokens, site, dtype, seed)
        before = y.clone()
        kernels.lowrank_add(x, y, alone(site), plan)
        want = exact(x, before, site, segments, slots)
        error = (y.double() - want).abs().max()
        allowed = (plain(x, before, site, segments, slots).double() - want).abs().max()
        # float32 sums differ in order only; in bfloat16 a tie may round the other way
        slack = 1e-6 if dtype == torch.float32 else 1e-9
        assert error <= allowed * (4 if dtype == torch.float32 else 1) + slack * want.abs().max()


@ALL
@DTYPES
def test_tokens_without_an_adapter_keep_their_bits(kernels: Kernels, dtype: torch.dtype) -> None:
    slots = make_slots([[8] * 4, [0] * 4], dtype)
    x, y = batch(40, 2, dtype)
    x[[0, 5, 39]] = float("nan")
    y[5] = float("inf")
    before = y.clone()
    segments = [Segment(1, 2, 0), Segment(2, 5, 1), Segment(6, 30, 0)]
    kernels.lowrank_add(x, y, alone(2), kernels.prepare(segments, slots))
    untouched = [0, 2, 3, 4, 5, *range(30, 40)]
    assert torch.equal(y[untouched], before[untouched])
    assert not torch.equal(y[1], before[1])


@ALL
def test_a_step_without_adapters_launches_nothing(kernels: Kernels) -> None:
    slots = make_slots([[8, 0, 8, 8], [0, 0, 0, 0]], torch.float32)
    for segments, sites in (
        ([], 0),
        ([Segment(0, 4, 1)], 0),
        ([Segment(0, 2, 0)], 3),
        ([Segment(1, 1, 0)], 0),
    ):
        plan = kernels.prepare(segments, slots)
        launches = kernels.launches
        for site in range(len(SHAPES)):
            x, y = batch(4, site, torch.float32)
            kernels.lowrank_add(x, y, alone(site), plan)
        assert kernels.launches - launches == sites


@ALL
@DTYPES
@pytest.mark.parametrize("length", [1, 40])
def test_nan_weights_stay_in_their_own_rows(kernels: Kernels, dtype: torch.dtype, length: int) -> None:
    slots = make_slots([[8] * 4, [16] * 4], dtype)
    segments = [Segment(0, length, 0), Segment(length, 2 * length, 1), Segment(2 * length, 3 * length, 0)]
    x, y = batch(3 * length, 1, dtype)
    clean = y.clone()
    kernels.lowrank_add(x, clean, alone(1), kernels.prepare(segments, slots))
    slots.pool[int(slots.a_offset[1, 1])] = float("nan")
    kernels.lowrank_add(x, y, alone(1), kernels.prepare(segments, slots))
    assert y[length : 2 * length].isnan().all()
    others = [*range(length), *range(2 * length, 3 * length)]
    assert torch.equal(y[others], clean[others])


@ALL
@DTYPES
def test_a_row_has_the_same_bits_alone_and_in_a_batch(kernels: Kernels, dtype: torch.dtype) -> None:
    slots = make_slots([[8] * 4, [63] * 4, [3] * 4], dtype)
    segments = [Segment(0, 1, 0), Segment(1, 2, 1), Segment(2, 7, 2), Segment(7, 47, 1), Segment(47, 48, 0)]
    x, y = batch(48, 2, dtype)
    together = y.clone()
    kernels.lowrank_add(x, together, alone(2), kernels.prepare(segments, slots))
    for s in segments:
        mine = y[s.start : s.stop].clone()
        own = [Segment(0, s.stop - s.start, s.slot)]
        kernels.lowrank_add(x[s.start : s.stop].clone(), mine, alone(2), kernels.prepare(own, slots))
        assert torch.equal(mine, together[s.start : s.stop])


@DTYPES
@pytest.mark.parametrize("site", range(len(SHAPES)))
def test_a_token_has_the_same_bits_however_many_use_its_adapter(dtype: torch.dtype, site: int) -> None:
    kernels, slots = kernels_for("cpu-deterministic"), make_slots([[rank] * 4 for rank in RANKS], dtype)
    x, y = batch(19, site, dtype)
    for slot in range(len(RANKS)):
        alone_, together = y.clone(), {count: y.clone() for count in (2, 3, 5, 8, 19)}
        for token in range(19):
            one = kernels.prepare([Segment(token, token + 1, slot)], slots)
            kernels.lowrank_add(x, alone_, alone(site), one)
        for count, got in together.items():
            kernels.lowrank_add(x, got, alone(site), kernels.prepare([Segment(0, count, slot)], slots))
            assert torch.equal(got[:count], alone_[:count])


@DTYPES
def test_threads_change_no_bit(dtype: torch.dtype, request: pytest.FixtureRequest) -> None:
    kernels = kernels_for("cpu")
    segments = [*(Segment(i, i + 1, i % 3) for i in range(20)), Segment(20, 83, 1), Segment(85, 87, 0)]
    plan = kernels.prepare(segments, make_slots([[8] * 4, [63] * 4, [0] * 4], dtype))
    x, y = batch(90, 2, dtype)
    single = y.clone()
    kernels.lowrank_add(x, single, alone(2), plan)
    request.getfixturevalue("three_threads")
    for _ in range(20):
        together = y.clone()
        kernels.lowrank_add(x, together, alone(2), plan)
        assert torch.equal(together, single)


@ALL
@DTYPES
def test_x_and_y_may_be_columns_of_a_fused_tensor(kernels: Kernels, dtype: torch.dtype) -> None:
    slots = make_slots([[5] * 4], dtype)
    segments = [Segment(0, 1, 0), Segment(2, 22, 0)]
    x, y = batch(22, 1, dtype)
    wide_x = torch.zeros(22, 200, dtype=dtype)
    wide_y = torch.zeros(22, 300, dtype=dtype)
    wide_x[:, 50 : 50 + x.shape[1]] = x
    wide_y[:, 100 : 100 + y.shape[1]] = y
    plan = kernels.prepare(segments, slots)
    kernels.lowrank_add(x, y, alone(1), plan)
    kernels.lowrank_add(wide_x[:, 50 : 50 + x.shape[1]], wide_y[:, 100 : 100 + y.shape[1]], alone(1), plan)
    torch.testing.assert_close(wide_y[:, 100 : 100 + y.shape[1]], y)
    assert not wide_y[:, :100].any()
    assert not wide_y[:, 100 + y.shape[1] :].any()


@ALL
@DTYPES
def test_sites_that_share_an_output_do_what_they_do_alone(kernels: Kernels, dtype: torch.dtype) -> None:
    widths = (96, 30, 64)
    generator = torch.Generator().manual_seed(0)
    rank = np.array([[8, 3, 0], [0, 0, 16], [1, 40, 5], [0, 0, 0]], np.int32)
    a, b, end = np.zeros(rank.shape, np.int64), np.zeros(rank.shape, np.int64), 0
    for slot, site in np.ndindex(*rank.shape):
        a[slot, site], b[slot, site] = end, end + rank[slot, site] * 50
        end = int(b[slot, site]) + int(rank[slot, site]) * widths[site]
    slots = LowRankSlots(rank, a, b, (torch.randn(end, generator=generator) * 0.3).to(dtype))
    segments = [*(Segment(n, n + 1, n % 4) for n in range(30)), Segment(31, 60, 2), Segment(60, 61, 1)]
    plan = kernels.prepare(segments, slots)
    x = torch.randn(70, 50, generator=generator).to(dtype)
    together = torch.randn(70, sum(widths), generator=generator).to(dtype)
    group = Group((0, 1, 2), widths)
    apart = [together[:, columns].contiguous() for columns in group.columns]
    launches = kernels.launches
    kernels.lowrank_add(x, together, group, plan)
    assert kernels.launches == launches + 1
    for site, part in enumerate(apart):
        kernels.lowrank_add(x, part, Group((site,), (widths[site],)), plan)
    assert torch.equal(together, torch.cat(apart, dim=1))


def test_a_batch_of_another_dtype_is_not_read_as_the_pools() -> None:
    kernels = kernels_for("cpu")
    plan = kernels.prepare([Segment(0, 1, 0)], make_slots([[1] * 4], torch.bfloat16))
    with pytest.raises(AssertionError, match="one dtype"):
        kernels.lowrank_add(*batch(1, 0, torch.float32), alone(0), plan)


def test_the_scale_is_whatever_was_folded_into_b() -> None:
    slots = make_slots([[1, 0, 0, 0]], torch.float32)
    slots.pool.fill_(1.0)
    matrix(slots.pool, int(slots.b_offset[0, 0]), 1, SHAPES[0][1]).fill_(0.5)
    y = torch.zeros(1, SHAPES[0][1])
    lowrank_add(torch.ones(1, SHAPES[0][0]), y, 0, [Segment(0, 1, 0)], slots)
    assert torch.equal(y, torch.full_like(y, 0.5 * SHAPES[0][0]))

"""Each path of the per-adapter vectors against float64, over any mix of segments and vectors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from graftwork.kernels.affine import NOTHING, AffineSlots, vector
from graftwork.kernels.lowrank import Segment
from graftwork.kernels.select import Kernels, kernels_for
from support.scale import times

WIDTHS = ((48, 32), (7, 130))  # (in, out), one per site
BOTH = pytest.mark.parametrize("kernels", [kernels_for("reference"), kernels_for("cpu")], ids=["reference", "cpu"])
DTYPES = pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])


def make_slots(present: Sequence[Sequence[bool]], dtype: torch.dtype) -> AffineSlots:
    """Slots where `present[slot]` tells which of scale_in, scale_out and shift there are at each site, in turn."""
    shape = (len(present), len(WIDTHS))
    tables = [np.full(shape, NOTHING, np.int64) for _ in range(3)]
    step, end = 4 // dtype.itemsize, 4
    for slot, flags in enumerate(present):
        for place, flag in enumerate(flags):
            site, table = divmod(place, 3)
            if flag:
                tables[table][slot, site] = end
                end += 132 * step
    pool = torch.zeros(end, dtype=dtype)
    wide = pool[: end // step * step].view(torch.float32)
    wide.copy_(torch.randn(len(wide), generator=torch.Generator().manual_seed(end)))
    scale_in, scale_out, shift = tables
    return AffineSlots(scale_in, scale_out, shift, np.array([any(flags) for flags in present]), pool)


def exact(rows: Tensor, segments: Sequence[Segment], slots: AffineSlots, site: int, *, inputs: bool) -> Tensor:
    want = rows.double()
    for s in segments:
        for table, scales in ((slots.scale_in, True),) if inputs else ((slots.scale_out, True), (slots.shift, False)):
            if (offset := int(table[s.slot, site])) != NOTHING:
                value = vector(slots.pool, offset, rows.shape[1]).double()
                mine = want[s.start : s.stop]
                want[s.start : s.stop] = mine * value if scales else mine + value
    return want


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[list[bool]], list[Segment], int]:
    present = draw(st.lists(st.lists(st.booleans(), min_size=6, max_size=6), min_size=1, max_size=4))
    segments, at = [], 0
    for _ in range(draw(st.integers(0, 5))):
        at += draw(st.integers(0, 3))
        stop = at + draw(st.integers(1, 5))
        segments.append(Segment(at, stop, draw(st.integers(0, len(present) - 1))))
        at = stop
    return present, segments, at + draw(st.integers(1, 2))


@BOTH
@DTYPES
@settings(max_examples=times(40, 2000), deadline=None)
@given(case=cases())
def test_rows_of_segments_change_and_no_others(
    kernels: Kernels, dtype: torch.dtype, case: tuple[list[list[bool]], list[Segment], int]
) -> None:
    present, segments, tokens = case
    slots = make_slots(present, dtype)
    plan = kernels.prepare_affine(segments, slots)
    for site, (width_in, width_out) in enumerate(WIDTHS):
        generator = torch.Generator().manual_seed(site)
        x = torch.randn(tokens, width_in, generator=generator).to(dtype)
        y = torch.randn(tokens, width_out, generator=generator).to(dtype)
        scaled, changed = kernels.scale_inputs(x, site, plan), y.clone()
        kernels.change_outputs(changed, site, plan)
        eps = torch.finfo(dtype).eps
        for got, want in (
            (scaled, exact(x, segments, slots, site, inputs=True)),
            (changed, exact(y, segments, slots, site, inputs=False)),
        ):
            assert ((got.double() - want).abs() <= eps * (want.abs() + 4)).all()
        others = torch.ones(tokens, dtype=torch.bool)
        for s in segments:
            others[s.start : s.stop] = False
        assert torch.equal(scaled[others], x[others]) and torch.equal(changed[others], y[others])


@BOTH
def test_inputs_are_copied_only_where_something_scales_them(kernels: Kernels) -> None:
    slots = make_slots([[True, False, False, False, False, True]], torch.float32)
    plan = kernels.prepare_affine([Segment(0, 1, 0)], slots)
    x, narrow = torch.ones(2, 48), torch.ones(2, 7)
    assert kernels.scale_inputs(x, 0, plan) is not x and torch.equal(x, torch.ones(2, 48))
    assert kernels.scale_inputs(narrow, 1, plan) is narrow

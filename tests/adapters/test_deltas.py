"""Deltas: every form of a delta does the same, and what is chosen always fits the smallest page."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from graftwork.adapters.deltas import (
    Delta,
    DensePart,
    KroneckerPart,
    LowRankPart,
    dense,
    form_of,
    low_rank,
    low_rank_is_smaller,
)
from graftwork.adapters.outline import LinearSite
from graftwork.adapters.serving_form import LowRankSlice, Part, Site, Weights
from graftwork.engine.adapter_cache import AdapterCache
from graftwork.engine.form_image import image_of
from support.fixtures import Tiny

SITE = Site("linear", 0)


def added(delta: Delta, x: Tensor, width: int) -> Tensor:
    """What a delta adds to an output of zeros, as if the tokens came twice in different chunks."""
    y = torch.zeros(len(x), width)
    if isinstance(delta, Part):
        for first in (0, 2):
            delta.act(x[first : first + 2], y[first : first + 2], first)
    else:
        y += (x @ delta.a.T) @ delta.b
    return y


def test_a_part_adds_its_delta() -> None:
    torch.manual_seed(0)
    x, a, b, left, right = (torch.randn(shape) for shape in ((4, 12), (5, 12), (9, 5), (3, 4), (3, 3)))
    parts = (
        (LowRankPart(SITE, Weights.of(a), Weights.of(b)), b @ a),
        (DensePart(SITE, Weights.of(b @ a)), b @ a),
        (KroneckerPart(SITE, Weights.of(left), Weights.of(right)), torch.kron(left, right)),
    )
    for part, delta in parts:
        assert torch.allclose(added(part, x, 9), x @ delta.T, atol=1e-5)


@pytest.mark.parametrize("rank", [1, 16, 17, 600])
def test_whatever_form_is_chosen_adds_the_same_and_fits_the_cache(tiny: Tiny, rank: int) -> None:
    torch.manual_seed(rank)
    a, b, x = torch.randn(rank, 4096), torch.randn(2048, rank) / rank, torch.randn(4, 4096)
    forms = (low_rank(0, a, b, torch.float32), dense(0, b @ a, torch.float32))
    assert isinstance(forms[0], LowRankSlice if rank <= 16 else LowRankPart)
    outline = replace(tiny.outline, linears=(LinearSite("wide", 4096, 2048, False),))
    for number, delta in enumerate(forms):
        assert torch.allclose(added(delta, x, 2048), x @ (b @ a).T, atol=2e-2)
        cache = AdapterCache(outline, torch.float32, 1 << 26)
        cache.insert(str(number), image_of(form_of([delta]), torch.float32), time.monotonic(), lambda: True)
        cache.check()


def test_halves_are_chosen_only_where_they_are_smaller() -> None:
    site = LinearSite("it", 100, 300, False)
    assert low_rank_is_smaller(74, site) and not low_rank_is_smaller(75, site)

"""FormImage: every tensor is in it once, at a multiple of a cache line, and nothing overlaps."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from graftwork.adapters.deltas import DensePart, LowRankPart
from graftwork.adapters.serving_form import Affine, LowRankSlice, ServingForm, Site, Traits, Weights
from graftwork.engine.form_image import ALIGN, image_of, weights_within

WIDTH_IN, WIDTH_OUT = 24, 40


@given(
    ranks=st.dictionaries(st.integers(0, 9), st.integers(1, 40), max_size=6),
    scaled=st.sets(st.integers(0, 9), max_size=3),
    rows=st.lists(st.integers(1, 60), max_size=4),
    dtype=st.sampled_from([torch.float32, torch.bfloat16]),
)
def test_every_tensor_reads_back_from_its_place(
    ranks: dict[int, int], scaled: set[int], rows: list[int], dtype: torch.dtype
) -> None:
    slices = [
        LowRankSlice(site, torch.randn(r, WIDTH_IN).to(dtype), torch.randn(r, WIDTH_OUT).to(dtype))
        for site, r in ranks.items()
    ]
    affines = [Affine(site, scale_in=torch.randn(WIDTH_IN), shift=torch.randn(WIDTH_OUT)) for site in scaled]
    parts = [DensePart(Site("linear", number), Weights.of(torch.randn(n, 7))) for number, n in enumerate(rows)]
    form = ServingForm(tuple(slices), tuple(affines), tuple(parts), Traits(virtual_tokens=3))
    image = image_of(form, dtype)

    def at(begin: int, tensor: torch.Tensor) -> torch.Tensor:
        assert begin % ALIGN == 0
        return image.data[begin : begin + tensor.nbytes].view(tensor.dtype).view(tensor.shape)

    for low, (site, rank, a, b) in zip(slices, image.slices.T.tolist(), strict=True):
        assert (site, rank) == (low.site, low.rank)
        assert torch.equal(at(a, low.a), low.a) and torch.equal(at(b, low.b), low.b)
    for name in ("scale_in", "shift"):
        for one, (site, begin) in zip(affines, image.vectors[name].T.tolist(), strict=True):
            wanted = getattr(one, name)
            assert site == one.site and torch.equal(at(begin, wanted), wanted)
    assert image.vectors["scale_out"].shape == (2, 0) and image.has_vectors == bool(scaled)
    weights = weights_within(image.data, image.pieces)
    for part, (same, pieces) in zip(parts, image.parts, strict=True):
        assert same is part and torch.equal(weights[pieces["delta"]].matrix, part.delta.matrix)
    assert image.traits == form.traits
    own = sum(tensor.nbytes for _, tensor in form.tensors())
    assert own <= len(image.data) < own + ALIGN * (2 * len(slices) + 2 * len(affines) + len(parts) + 1)


def test_what_parts_share_is_in_it_once() -> None:
    shared, own = Weights.of(torch.randn(8, 8)), Weights.of(torch.randn(8, 8))
    parts = tuple(LowRankPart(Site("linear", number), shared, own if number else shared) for number in range(3))
    image = image_of(ServingForm(parts=parts), torch.float32)
    assert len(image.pieces) == 2 and len(image.data) == 2 * 256
    assert [dict(pieces) for _, pieces in image.parts] == [{"a": 0, "b": 0}, {"a": 0, "b": 1}, {"a": 0, "b": 1}]


def test_a_form_of_nothing_is_an_image_of_nothing() -> None:
    image = image_of(ServingForm(), torch.bfloat16)
    assert len(image.data) == 0 and image.slices.shape == (4, 0) and image.slices.dtype == np.int64

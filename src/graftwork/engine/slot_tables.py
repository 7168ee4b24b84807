"""Slot tables: made for all slots of a cache at once, and filled for one adapter whose bytes lie in their range."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from graftwork.adapters.outline import Outline
from graftwork.adapters.serving_form import Part, Site, Traits
from graftwork.engine.form_image import VECTORS, FormImage, weights_within
from graftwork.kernels.affine import NOTHING, AffineSlots
from graftwork.kernels.lowrank import LowRankSlots
from graftwork.models.adapter_slots import AdapterSlots


def empty_slots(slots: int, outline: Outline, buffer: Tensor) -> AdapterSlots:
    """Tables for adapters that lie in `buffer` [elements], in the serving dtype; memory only where they are written."""
    shape = (slots, len(outline.linears))
    lowrank = LowRankSlots(np.zeros(shape, np.int32), np.zeros(shape, np.int64), np.zeros(shape, np.int64), buffer)
    scale_in, scale_out, shift = (np.zeros(shape, np.int64) for _ in VECTORS)  # written where `any` is true
    affine = AffineSlots(scale_in, scale_out, shift, np.zeros(slots, np.bool_), buffer)
    return AdapterSlots(lowrank, affine, parts=[{}] * slots, traits=[Traits()] * slots)


def fill_slot(slots: AdapterSlots, slot: int, image: FormImage, start: int, there: Tensor) -> None:
    """Fill a slot's tables for an image whose bytes were copied to `there`, which begins at byte `start`."""
    lowrank, affine, itemsize = slots.lowrank, slots.affine, image.dtype.itemsize
    sites, ranks, a, b = image.slices
    lowrank.rank[slot] = 0
    lowrank.rank[slot, sites] = ranks
    lowrank.a_offset[slot, sites] = (start + a) // itemsize
    lowrank.b_offset[slot, sites] = (start + b) // itemsize
    affine.any[slot] = image.has_vectors
    if image.has_vectors:
        for name in VECTORS:
            sites, begin = image.vectors[name]
            table = getattr(affine, name)
            table[slot] = NOTHING
            table[slot, sites] = (start + begin) // itemsize
    weights = weights_within(there, image.pieces)
    parts: dict[Site, tuple[Part, ...]] = {}
    for part, pieces in image.parts:
        placed = part.placed({name: weights[number] for name, number in pieces.items()})
        parts[part.site] = (*parts.get(part.site, ()), placed)
    slots.parts[slot] = parts
    slots.traits[slot] = image.traits

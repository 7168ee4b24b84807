"""AdapterSlots: where everything that resident adapters do lies, by slot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from graftwork.adapters.serving_form import Part, Site, Traits
from graftwork.kernels.affine import AffineSlots
from graftwork.kernels.lowrank import LowRankSlots


@dataclass(frozen=True)
class AdapterSlots:
    """Written by the adapter cache while a slot is nobody's yet, read by every step; one entry per slot."""

    lowrank: LowRankSlots
    affine: AffineSlots
    parts: list[Mapping[Site, tuple[Part, ...]]]
    traits: list[Traits]

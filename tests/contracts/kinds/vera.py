"""VeRA as PEFT writes it."""

from __future__ import annotations

from functools import partial
from typing import Any

from contracts.kinds import KindCase
from support.tiny import save_peft

STORED, DRAWN = "stored projections", "projections drawn again (save_projection false)"
#: Wide enough for random matrices that are larger than a page.
WIDE = {"hidden_size": 256, "intermediate_size": 1024, "num_hidden_layers": 2}


def _vera(name: str, feature: str, base: dict[str, Any] | None = None, **settings: Any) -> KindCase:
    settings = {"r": 16, "target_modules": ["q_proj", "v_proj", "down_proj"]} | settings
    return KindCase(name, "VERA", feature, partial(save_peft, "VeraConfig", settings, std=0.2), base=base or {})


CASES = [
    _vera("vera", STORED),
    _vera("vera-of-a-high-rank", STORED, r=100, target_modules="all-linear"),
    _vera("vera-on-a-wide-base", STORED, WIDE, r=80, target_modules=["up_proj", "down_proj"]),
    _vera("vera-drawn", DRAWN, save_projection=False),
    _vera("vera-drawn-from-another-key", DRAWN, save_projection=False, projection_prng_key=(1 << 40) + 3, r=40),
]

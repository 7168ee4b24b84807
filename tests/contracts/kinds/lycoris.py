"""LoHa and LoKr as PEFT writes them."""

from __future__ import annotations

from functools import partial
from typing import Any

from contracts.kinds import KindCase
from support.tiny import save_peft

#: Wide enough for a delta that is larger than a page and yet smaller as two halves than written out.
WIDE = {"hidden_size": 256, "intermediate_size": 1024, "num_hidden_layers": 2}
PATTERNS: dict[str, Any] = {
    "rank_pattern": {"q_proj": 3, r"layers\.[01]\.mlp\.up_proj": 5},
    "alpha_pattern": {"mlp.up_proj": 40},
}


def _case(name: str, kind: str, feature: str, config: str, std: float, settings: dict[str, Any]) -> KindCase:
    base: dict[str, Any] = settings.pop("base", {})
    settings = {"r": 4, "alpha": 8, "target_modules": "all-linear"} | settings
    return KindCase(name, kind, feature, partial(save_peft, config, settings, std=std), base=base)


def _loha(name: str, feature: str, std: float = 0.2, **settings: Any) -> KindCase:
    return _case(name, "LOHA", feature, "LoHaConfig", std, settings)


def _lokr(name: str, feature: str, std: float = 0.1, **settings: Any) -> KindCase:
    return _case(name, "LOKR", feature, "LoKrConfig", std, settings)


PRODUCTS, KRONECKER, SPLIT = (
    "products of two low-rank products",
    "Kronecker products",
    "decompose_both and decompose_factor",
)

CASES = [
    _loha("loha", PRODUCTS),
    _loha("loha-of-full-rank", PRODUCTS, std=0.1, r=8),
    _loha("loha-on-a-wide-base", PRODUCTS, r=9, target_modules=["up_proj", "down_proj"], base=WIDE),
    _loha("loha-mixed-ranks", "rank and alpha patterns", **PATTERNS),
    _lokr("lokr", KRONECKER),
    _lokr("lokr-whole-factors", KRONECKER, r=64, alpha=64),
    _lokr("lokr-decomposed", SPLIT, std=0.2, r=2, decompose_both=True),
    _lokr("lokr-small-left-factor", SPLIT, decompose_factor=4),
    _lokr("lokr-odd-factor", SPLIT, decompose_factor=5, decompose_both=True),
    _lokr("lokr-mixed-ranks", "rank and alpha patterns", **PATTERNS),
]

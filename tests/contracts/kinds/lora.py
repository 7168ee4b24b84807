"""LoRA as PEFT writes it."""

from __future__ import annotations

from contracts.kinds import KindCase
from support.tiny import save_peft


def _lora(
    name: str, feature: str, std: float = 0.05, *, base: dict[str, object] | None = None, **config: object
) -> KindCase:
    from functools import partial

    settings = {"r": 8, "lora_alpha": 16, "target_modules": "all-linear"} | config
    return KindCase(name, "LORA", feature, partial(save_peft, "LoraConfig", settings, std=std), base=base or {})


CASES = [
    _lora("plain", "low-rank pairs"),
]

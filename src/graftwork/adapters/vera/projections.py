"""The random matrices of VeRA, drawn as PEFT draws them."""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt

import torch
from torch import Tensor


def drawn(seed: int, shapes: Mapping[str, tuple[int, int]]) -> tuple[Tensor, Tensor]:
    """A, then B, in float32 from one generator on the CPU, whatever device training was on.

    Rule: `peft.tuners.vera.model._kaiming_init`: uniform within √3 · √2 / √(columns).
    """
    generator = torch.Generator("cpu").manual_seed(seed)
    a, b = (
        torch.empty(shapes[name], dtype=torch.float32).uniform_(-bound, bound, generator=generator)
        for name in ("vera_A", "vera_B")
        if (bound := sqrt(3.0) * (sqrt(2.0) / sqrt(shapes[name][1])))
    )
    return a, b

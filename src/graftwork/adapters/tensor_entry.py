"""TensorEntry: one line of an adapter's account."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TensorEntry:
    """What becomes of one stored tensor; `norm`, on a `lora_B` line, is that of the module's delta (Frobenius).

    `tokens` is how many tokens a replaced embedding or head has rows for, which may be more than the base has.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    bytes: int
    used: bool
    reason: str
    module: str | None = None
    part: str | None = None
    rank: int | None = None
    scale: float | None = None
    norm: float | None = None
    tokens: int | None = None

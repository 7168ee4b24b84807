"""TensorEntry: one line of an adapter's account."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TensorEntry:
    """What becomes of one stored tensor.

    `norm`, on one line of each module, is that of what the module changes (Frobenius); `tokens` is the number of rows
    of vocabulary that a replaced embedding or head gives.
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

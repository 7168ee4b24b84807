"""Pooler: what becomes of one row's final hidden states when the row generates nothing."""

from __future__ import annotations

import torch
from torch import Tensor

from graftwork.engine.request import Pooling


class Pooler:
    """One row's; the prompt may come in chunks, and all over again when the row was preempted."""

    def __init__(self, pooling: Pooling) -> None:
        self.pooling = pooling
        self._sum: Tensor | None = None  # [width] float64
        self._count = 0

    def wanted(self, start: int, stop: int, *, first: int, end: int) -> range:
        """Positions of the chunk [start, stop) whose hidden state is needed; the prompt is [first, end) of the row."""
        begin = end - 1 if self.pooling != "mean" else first
        return range(max(start, begin), max(stop, begin))

    def take(self, start: int, states: Tensor) -> None:
        """Add what the chunk that begins at position `start` gave: hidden states or class logits [wanted, width]."""
        if start == 0:  # the row begins, perhaps again: what an earlier attempt added would count twice
            self._sum, self._count = None, 0
        if states.shape[0]:
            wide = states.double()
            if self._sum is not None:
                wide = torch.cat([self._sum[None], wide])
            self._sum = wide.cumsum(0)[-1]  # one state after another, wherever the prompt was cut
            self._count += states.shape[0]

    def result(self) -> Tensor:
        """The mean of what was taken [width], float32: of a single state that state itself."""
        assert self._sum is not None, "the prompt is computed"
        return (self._sum / self._count).float()

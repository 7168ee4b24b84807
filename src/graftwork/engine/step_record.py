"""StepRecord: what one step of the loop was, for whoever observes it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class StepRecord:
    """`start_s` is of `time.perf_counter`; of the `tokens` that were computed, `prefill` were a prompt's."""

    start_s: float
    rows: int
    tokens: int
    prefill: int


#: Called in the loop thread once per step, so it must return at once; one that raises is called no more.
Observer = Callable[[StepRecord], None]

"""Pooler: the same result however the prompt is cut, and whatever an attempt before gave."""

from __future__ import annotations

from itertools import pairwise

import torch
from hypothesis import given
from hypothesis import strategies as st

from graftwork.engine.pooler import Pooler


@given(
    cuts=st.sets(st.integers(1, 11)), first=st.integers(0, 3), attempts=st.integers(1, 3), stopped=st.integers(0, 12)
)
def test_chunks_and_restarts_change_nothing(cuts: set[int], first: int, attempts: int, stopped: int) -> None:
    states = torch.arange(24, dtype=torch.float32).view(12, 2)
    edges = [0, *sorted(cuts), 12]
    for pooling, want in (("mean", states[first:].mean(0)), ("last", states[-1])):
        pooler = Pooler(pooling)  # type: ignore[arg-type]
        for attempt in range(attempts):
            for start, stop in pairwise(edges):
                if attempt + 1 < attempts and start >= stopped:
                    break
                wanted = pooler.wanted(start, stop, first=first, end=12)
                assert all(start <= position < stop for position in wanted)
                pooler.take(start, states[list(wanted)])
        assert torch.allclose(pooler.result(), want)


def test_bfloat16_states_are_summed_in_float32() -> None:
    pooler = Pooler("mean")
    pooler.take(0, torch.full((4096, 1), 1.0, dtype=torch.bfloat16))
    pooler.take(4096, torch.full((4096, 1), 3.0, dtype=torch.bfloat16))
    assert pooler.result().tolist() == [2.0]

"""Rows without words, pages of a base that exists nowhere, and a step that computes nothing."""

from __future__ import annotations

from typing import Any, cast

import torch

from graftwork.adapters.outline import Outline
from graftwork.engine.kv_cache import KvCache
from graftwork.engine.request import Caller
from graftwork.engine.sampling_params import SamplingParams
from graftwork.engine.scheduler import MAX_RATED, UNKNOWN, Scheduler
from graftwork.engine.sequence import Sequence
from graftwork.engine.step_cost import StepCost

OUTLINE = Outline("b", "X", "sha256:0", "float32", 8, 4, 1, 1, 1, 2, 4096, (), (), (), "b")
PAGE_BYTES = 2 * 1 * 2 * 64 * 4
LOCAL = Caller()


def kv_cache(pages: int) -> KvCache:
    return KvCache(OUTLINE, torch.float32, pages * PAGE_BYTES)


def row(name: str, prompt: int, answer: int, *, rated: bool = False, caller: Caller = LOCAL) -> Sequence:
    unused, params = cast(Any, None), SamplingParams(prompt_logprobs=0 if rated else None)
    return Sequence(name, [1] * prompt, prompt, params, 0, answer, frozenset(), None, unused, unused, unused, caller)


def step(scheduler: Scheduler, cost: StepCost = UNKNOWN) -> list[tuple[str, int]]:
    """Run one step as the loop does: compute, sample one token where nothing is pending, drop what is done."""
    chunks = scheduler.schedule(cost)
    assert sum(len(chunk.rates) for chunk in chunks) <= MAX_RATED
    for chunk in chunks:
        completes, samples, sequence, rates = chunk.completes, chunk.samples, chunk.sequence, chunk.rates
        assert len(chunk.logits) == len(rates) + samples
        if rates:
            assert rates == chunk.logits[: len(rates)] and rates.start == len(sequence.rated), "in order, each once"
            sequence.rated += [cast(Any, None)] * len(rates)
        sequence.num_computed += chunk.count
        if completes and not samples:
            scheduler.remove(sequence)
        if samples:
            sequence.tokens.append(2)
            if sequence.num_generated == sequence.max_tokens:
                scheduler.remove(sequence)
    scheduler.check()
    return [(chunk.sequence.id, chunk.count) for chunk in chunks]

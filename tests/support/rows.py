"""Rows without words, and a step that computes nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from graftwork.engine.block_keys import BlockKeys
from graftwork.engine.chunk import MAX_RATED, Chunk
from graftwork.engine.request import Caller
from graftwork.engine.sampling_params import SamplingParams
from graftwork.engine.scheduler import UNKNOWN, Scheduler
from graftwork.engine.sequence import Sequence
from graftwork.engine.step_cost import StepCost

LOCAL = Caller()


def row(
    name: str, prompt: int, answer: int, *, rated: bool = False, caller: Caller = LOCAL, whose: str = ""
) -> Sequence:
    """A row of many equal tokens; those of one `whose` share what they compute, without it nothing is shared."""
    unused, params = cast(Any, None), SamplingParams(prompt_logprobs=0 if rated else None)
    made = Sequence(name, [1] * prompt, prompt, params, 0, answer, frozenset(), None, unused, unused, unused, caller)
    made.keys = BlockKeys("base", None, replace(caller, salt=whose)) if whose else None
    return made


#: What each page holds, by its number: whose tokens, and up to which place of a row.
Pages = dict[int, tuple[str, int]]


def write(chunk: Chunk, pages: Pages) -> None:
    """Fill the pages of a chunk, all others being full already with what this row would have computed."""
    sequence = chunk.sequence
    whose = sequence.keys.caller.salt if sequence.keys else sequence.id
    for block, page in enumerate(sequence.pages[: sequence.num_computed // 64]):
        assert pages[page] == (whose, (block + 1) * 64), "a row reads what it would have computed"
    for place in range(sequence.num_computed, sequence.num_computed + chunk.count):
        pages[sequence.pages[place // 64]] = (whose, place + 1)


def step(scheduler: Scheduler, cost: StepCost = UNKNOWN, pages: Pages | None = None) -> list[tuple[str, int]]:
    """Run one step as the loop does: compute, sample one token where nothing is pending, drop what is done."""
    chunks = scheduler.schedule(cost)
    for chunk in chunks if pages is not None else ():
        write(chunk, cast(Pages, pages))
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
            scheduler.reuse.vouch(sequence)
            sequence.tokens.append(2)
            if sequence.num_generated == sequence.max_tokens:
                scheduler.remove(sequence)
    scheduler.check()
    return [(chunk.sequence.id, chunk.count) for chunk in chunks]

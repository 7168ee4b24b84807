"""Embeddings: pooled as transformers and PEFT would, alone and beside rows that generate, and nothing is kept."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

from graftwork.engine.chunk import Chunk
from graftwork.engine.request import Pooled, Pooling
from graftwork.engine.scheduler import Scheduler
from graftwork.engine.step_cost import StepCost
from graftwork.errors import GenerationFailed, InvalidRequest, Refused
from support.engines import ask, prompt_of, reading, request, running, settled
from support.fixtures import Tiny
from support.oracle import Oracle
from support.parity import assert_float32_parity

#: Largest difference of any number of a normalised vector on a tiny base in float32.
FP32 = 1e-4
ADAPTERS = (None, "a1", "a2", "a3")
LENGTHS = (1, 5, 63, 64, 65, 130, 17, 100)
POOLINGS: tuple[Pooling, ...] = ("mean", "last")


@cache
def oracle(root: Path, adapter: str | None) -> Oracle:
    return Oracle(root / "base", root / adapter if adapter else None)


def truth(tiny: Tiny, prompt: Sequence[int], adapter: str | None, pooling: Pooling) -> Tensor:
    states = oracle(tiny.root, adapter).hidden(list(prompt))
    return states.mean(0) if pooling == "mean" else states[-1]


def assert_parity(tiny: Tiny, prompt: Sequence[int], adapter: str | None, pooling: Pooling, got: Pooled) -> None:
    want, have = truth(tiny, prompt, adapter, pooling), torch.tensor(got.values)
    assert (normalize(have, dim=0) - normalize(want, dim=0)).abs().max() <= FP32
    assert torch.allclose(have, want, rtol=1e-3, atol=1e-3)
    assert (got.prompt_tokens, got.labels) == (len(prompt), ())


def test_the_oracle_gives_what_the_head_reads(tiny: Tiny) -> None:
    prompt = list(prompt_of(1, 9))
    with torch.inference_mode():
        logits = oracle(tiny.root, None)._model.lm_head(oracle(tiny.root, None).hidden(prompt))
    assert torch.allclose(logits.log_softmax(-1), oracle(tiny.root, None).logprobs(prompt), atol=1e-5)


def test_adapters_and_poolings_change_the_vector(tiny: Tiny) -> None:
    made = [normalize(truth(tiny, prompt_of(1, 20), name, how), dim=0) for name in ADAPTERS for how in POOLINGS]
    distances = [float((a - b).abs().max()) for n, a in enumerate(made) for b in made[:n]]
    assert min(distances) > 100 * FP32, "the fixtures must differ, or parity proves nothing"


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("adapter", ADAPTERS)
async def test_alone(tiny: Tiny, adapter: str | None, pooling: Pooling) -> None:
    async with running(tiny, max_num_batched_tokens=64) as engine:
        for length in LENGTHS:
            prompt = prompt_of(length, length)
            assert_parity(tiny, prompt, adapter, pooling, await engine.pool(reading(prompt, adapter, pooling)))


@pytest.mark.parametrize("budget", [64, 512])
async def test_in_a_mixed_batch_with_rows_that_generate(tiny: Tiny, budget: int) -> None:
    rows = [
        (prompt_of(index, length), ADAPTERS[index % 4], POOLINGS[index % 2]) for index, length in enumerate(LENGTHS)
    ]
    said = [(prompt_of(20 + index, length), ADAPTERS[(index + 1) % 4]) for index, length in enumerate(LENGTHS)]
    async with running(tiny, max_num_batched_tokens=budget) as engine:
        for adapter in ADAPTERS:  # in memory, so that no row ends before another's adapter is there
            await ask(engine, request((1,), adapter, max_tokens=1))
        generating = [asyncio.ensure_future(ask(engine, request(prompt, adapter))) for prompt, adapter in said]
        pooled = await asyncio.gather(*(engine.pool(reading(*row)) for row in rows))
        for row, got in zip(rows, pooled, strict=True):
            assert_parity(tiny, *row, got)
        for (prompt, adapter), answer in zip(said, await asyncio.gather(*generating), strict=True):
            assert_float32_parity(oracle(tiny.root, adapter), prompt, answer, FP32)
        assert engine.stats().max_distinct_adapters_in_step == 3
        assert engine.stats().generated_tokens == 16 * len(said) + len(ADAPTERS)


async def test_a_preempted_row_starts_over_and_counts_nothing_twice(
    tiny: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost: dict[str, int] = {}  # row → tokens that were computed of it when it had to give up its pages
    plain = Scheduler.schedule

    def short_of_pages(self: Scheduler, cost: StepCost) -> list[Chunk]:
        newest = self.running[-1] if self.running else None
        if newest is not None and newest.pooler is not None and newest.num_computed and newest.id not in lost:
            lost[newest.id] = newest.num_computed
            self._preempt(newest)
        return plain(self, cost)

    monkeypatch.setattr(Scheduler, "schedule", short_of_pages)
    rows = [(prompt_of(50 + index, 150 + index), ADAPTERS[index % 4], POOLINGS[index % 2]) for index in range(8)]
    async with running(tiny, max_num_batched_tokens=64) as engine:
        pooled = await asyncio.gather(*(engine.pool(reading(*row)) for row in rows))
        assert engine.stats().preemptions == len(lost) == len(rows)
    assert all(lost.values())
    for row, got in zip(rows, pooled, strict=True):
        assert_parity(tiny, *row, got)


async def test_a_prompt_may_fill_the_whole_context(tiny: Tiny) -> None:
    async with running(tiny) as engine:
        prompt = prompt_of(3, engine.max_context)
        assert_parity(tiny, prompt, "a1", "mean", await engine.pool(reading(prompt, "a1")))
        with pytest.raises(InvalidRequest, match=r"513 tokens.*512"):
            await engine.pool(reading(prompt_of(3, 513), "a1"))


async def test_poolings_launch_no_adapter_kernel_for_the_base_and_sample_nothing(tiny: Tiny) -> None:
    async with running(tiny) as engine:
        await engine.pool(reading(prompt_of(1, 10)))
        stats = engine.stats()
        assert (stats.adapter_kernel_launches, stats.generated_tokens, stats.prompt_tokens) == (0, 0, 10)


async def test_the_same_text_is_never_answered_from_another_adapter(tiny: Tiny) -> None:
    prompt = prompt_of(7, 40)
    async with running(tiny) as engine:
        for adapter in ("a1", None, "a2", "a1", "a2", None):
            assert_parity(tiny, prompt, adapter, "mean", await engine.pool(reading(prompt, adapter)))


async def test_a_hundred_poolings_cancelled_at_any_time_leave_nothing(tiny: Tiny) -> None:
    async with running(tiny, max_num_seqs=4) as engine:

        async def leave(index: int) -> None:
            task = asyncio.ensure_future(engine.pool(reading(prompt_of(index, 300), ("a1", "a2", None)[index % 3])))
            await asyncio.sleep(0.0005 * (index % 20))
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        await asyncio.gather(*map(leave, range(100)))
        await settled(engine)
        engine.check()
        assert_parity(tiny, prompt_of(1, 9), "a1", "mean", await engine.pool(reading(prompt_of(1, 9), "a1")))


async def test_an_adapter_that_cannot_be_loaded_is_refused(tiny: Tiny) -> None:
    (tiny.root / "empty").mkdir(exist_ok=True)
    async with running(tiny) as engine:
        with pytest.raises(Refused):
            await engine.pool(reading((1, 2, 3), "empty"))


async def test_the_base_and_an_adapter_without_a_head_do_not_classify(tiny: Tiny) -> None:
    async with running(tiny) as engine:
        with pytest.raises(InvalidRequest, match="The base model has no classification head"):
            await engine.pool(reading((1, 2, 3), None, "classes"))
        with pytest.raises(InvalidRequest, match=r"a1:1\.0\.0 has no classification head"):
            await engine.pool(reading((1, 2, 3), "a1", "classes"))


async def test_values_that_are_not_finite_fail_their_row_only(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    from graftwork.models.decoder import Decoder

    plain = Decoder.forward

    def poisoned(self: Decoder, batch: object) -> object:
        made = plain(self, batch)  # type: ignore[arg-type]
        if made.hidden is not None:
            made.hidden[0] = float("nan")
        return made

    monkeypatch.setattr(Decoder, "forward", torch.inference_mode()(poisoned))
    async with running(tiny) as engine:
        answers = await asyncio.gather(
            engine.pool(reading(prompt_of(1, 9))), ask(engine, request(prompt_of(2, 9))), return_exceptions=True
        )
        assert isinstance(answers[0], GenerationFailed) and not isinstance(answers[1], BaseException)
        assert engine.stats().failed_rows == 1

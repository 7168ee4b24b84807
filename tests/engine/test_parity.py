"""PARITY: every row answers as PEFT does running that adapter alone, whatever else is in the batch."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest
import torch

from support.engines import Answer, ask, ask_all, prompt_of, request, running
from support.fixtures import Tiny
from support.oracle import Oracle
from support.parity import assert_bfloat16_parity, assert_float32_parity

#: Largest difference of a chosen token's log-probability on a tiny base in float32.
FP32 = 1e-4
ADAPTERS = (None, "a1", "a2", "a3")
#: Lengths around the page size and the token budget, so that pages and chunks end everywhere.
LENGTHS = (1, 5, 63, 64, 65, 130, 17, 100)


@cache
def oracle(root: Path, adapter: str | None, dtype: torch.dtype = torch.float32) -> Oracle:
    return Oracle(root / "base", root / adapter if adapter else None, dtype)


def assert_parity(tiny: Tiny, prompt: Sequence[int], adapter: str | None, got: Answer) -> None:
    assert_float32_parity(oracle(tiny.root, adapter), prompt, got, FP32)


def test_adapters_change_the_answer(tiny: Tiny) -> None:
    prompt = list(prompt_of(1, 20))
    answers = {tuple(oracle(tiny.root, adapter).greedy(prompt, 16)[0]) for adapter in ADAPTERS}
    assert len(answers) == len(ADAPTERS), "the fixtures must differ, or parity proves nothing"


@pytest.mark.parametrize("adapter", ADAPTERS)
async def test_alone(tiny: Tiny, adapter: str | None) -> None:
    async with running(tiny, max_num_batched_tokens=64) as engine:
        for length in LENGTHS:
            prompt = prompt_of(length, length)
            assert_parity(tiny, prompt, adapter, await ask(engine, request(prompt, adapter)))


@pytest.mark.parametrize("budget", [64, 512])
async def test_in_a_mixed_batch_of_eight_with_base_rows(tiny: Tiny, budget: int) -> None:
    rows = [(prompt_of(index, length), ADAPTERS[index % 4]) for index, length in enumerate(LENGTHS)]
    async with running(tiny, max_num_batched_tokens=budget) as engine:
        for adapter in ADAPTERS:  # in memory, so that no row ends before another's adapter is there
            await ask(engine, request((1,), adapter, max_tokens=1))
        got = await ask_all(engine, [request(prompt, adapter) for prompt, adapter in rows])
        for (prompt, adapter), answer in zip(rows, got, strict=True):
            assert_parity(tiny, prompt, adapter, answer)
        assert engine.stats().max_distinct_adapters_in_step == 3


@pytest.mark.parametrize("rows", [1, 64])
async def test_the_same_long_prompt_in_series_and_together(tiny: Tiny, rows: int) -> None:
    """With one row, each has the slot, the pages and the keys and values of the one before."""
    prompt, order = prompt_of(6, 300), ("a1", "a2", None, "a1", None)
    async with running(tiny, max_num_seqs=rows) as engine:
        for adapter in order:
            assert_parity(tiny, prompt, adapter, await ask(engine, request(prompt, adapter)))
        together = await ask_all(engine, [request(prompt, adapter) for adapter in order])
        for adapter, answer in zip(order, together, strict=True):
            assert_parity(tiny, prompt, adapter, answer)


async def test_base_and_weights_are_as_before_after_all_traffic(tiny: Tiny) -> None:
    prompt = prompt_of(3, 40)
    async with running(tiny) as engine:
        before = await ask(engine, request(prompt))
        await ask_all(engine, [request(prompt_of(i, 9 + i), ADAPTERS[i % 4], max_tokens=30) for i in range(12)])
        after = await ask(engine, request(prompt))
        # Not to the bit: matmuls round by where their buffers happen to lie in memory.
        assert after.tokens == before.tokens and after.chosen == pytest.approx(before.chosen, abs=1e-5)
        assert await engine.weights_digest() == engine.loaded_digest == tiny.outline.weights_digest


async def test_base_rows_launch_no_adapter_kernel(tiny: Tiny) -> None:
    async with running(tiny) as engine:
        await ask(engine, request(prompt_of(1, 10), "a1"))
        launches = engine.stats().adapter_kernel_launches
        await ask_all(engine, [request(prompt_of(i, 20)) for i in range(4)])
        assert engine.stats().adapter_kernel_launches == launches > 0


async def test_rows_that_join_and_leave_at_every_step(tiny: Tiny) -> None:
    rows = [(prompt_of(i, 3 + 7 * i % 40), ADAPTERS[i % 4], 1 + (5 * i) % 17) for i in range(24)]
    async with running(tiny, max_num_seqs=5, max_num_batched_tokens=64) as engine:

        async def later(index: int) -> Answer:
            await asyncio.sleep(0.002 * (index % 7))
            prompt, adapter, count = rows[index]
            return await ask(engine, request(prompt, adapter, max_tokens=count))

        for (prompt, adapter, _), answer in zip(rows, await asyncio.gather(*map(later, range(len(rows)))), strict=True):
            assert_parity(tiny, prompt, adapter, answer)


async def test_preempted_rows_go_on_as_if_nothing_had_happened(tiny: Tiny) -> None:
    page = 4 * 2 * 2 * 16 * 64 * 4  # layers x (K, V) x kv heads x head dim x tokens x float32
    rows = [(prompt_of(i, 60), ADAPTERS[i % 4]) for i in range(5)]
    async with running(tiny, kv_cache_bytes=1 << 20, max_model_len=256) as engine:
        assert engine.stats().kv_pages_total == (1 << 20) // page
        got = await ask_all(engine, [request(prompt, adapter, max_tokens=150) for prompt, adapter in rows])
        assert engine.stats().preemptions > 0
        for (prompt, adapter), answer in zip(rows, got, strict=True):
            assert_parity(tiny, prompt, adapter, answer)


async def test_bfloat16_is_as_close_to_the_truth_as_pefts_own_run(tiny: Tiny) -> None:
    rows = [(prompt_of(5 + index, 30), adapter) for index, adapter in enumerate(ADAPTERS * 2)]
    oracles = {name: (oracle(tiny.root, name), oracle(tiny.root, name, torch.bfloat16)) for name in ADAPTERS}
    async with running(tiny, dtype="bfloat16") as engine:
        await assert_bfloat16_parity(engine, rows, oracles, count=12)

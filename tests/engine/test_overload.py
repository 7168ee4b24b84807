"""Overload and poison: whatever one request or tenant does, others are answered, and nothing is held afterwards."""

from __future__ import annotations

import asyncio
import threading
import time
import warnings
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graftwork.engine.engine_stats import EngineStats
from graftwork.engine.request import Caller, GenerationRequest, Pooled, Pooling
from graftwork.errors import GenerationFailed, InvalidRequest, TimedOut, TooManyRequests, Unavailable
from graftwork.models.prepare import prepare_base
from graftwork.settings import Settings
from support.edited import Tensors, edited
from support.engines import Answer, FolderSource, ask, ask_all, prompt_of, reading, request, running, settled
from support.fixtures import Tiny
from support.scale import times
from support.tiny import make_base

X, Y = Caller("x"), Caller("y")
#: Room for one of a1 and a2.
ONE_ADAPTER: dict[str, Any] = {"adapter_cache_bytes": 128 << 10}


def of(caller: Caller, asked: GenerationRequest) -> GenerationRequest:
    return replace(asked, caller=caller)


async def until(true: Any) -> None:
    async with asyncio.timeout(10):
        while not true():
            await asyncio.sleep(0.001)


# -- fairness ----------------------------------------------------------------------------------------------------------


async def test_a_light_tenant_is_answered_long_before_a_flood_is(tiny: Tiny) -> None:
    """T86: X asks fifty times and Y once."""
    async with running(tiny, max_num_seqs=2) as engine:
        ended: list[str] = []

        async def one(name: str, asked: GenerationRequest) -> Answer:
            answer = await ask(engine, asked)
            ended.append(name)
            return answer

        alone = await ask(engine, request(prompt_of(1, 6), "a2", max_tokens=5))
        flood = [of(X, request(prompt_of(i, 20), "a1", max_tokens=40)) for i in range(50)]
        tasks = [asyncio.create_task(one("x", asked)) for asked in flood]
        await until(lambda: engine.stats().running == 2)
        light = await one("y", of(Y, request(prompt_of(1, 6), "a2", max_tokens=5)))
        assert light.tokens == alone.tokens and ended.count("x") <= 2
        answers = await asyncio.gather(*tasks)
        assert all(answer.completion_tokens == 40 for answer in answers), "who gave way is answered in full"


@pytest.mark.parametrize("caller", [X, Y])
async def test_an_adapter_short_of_memory_waits_for_what_runs_and_not_for_a_queue(tiny: Tiny, caller: Caller) -> None:
    """T86: memory for one adapter, and hundreds of requests for it are here before the first for another."""
    async with running(tiny, max_num_seqs=2, **ONE_ADAPTER) as engine:
        await ask(engine, request(prompt_of(1, 6), "a1", max_tokens=1))
        flood = [of(X, request(prompt_of(i, 6), "a1", max_tokens=300)) for i in range(200)]
        tasks = [asyncio.create_task(ask(engine, asked)) for asked in flood]
        await until(lambda: engine.stats().waiting == 198)
        assert (await ask(engine, of(caller, request(prompt_of(1, 6), "a2", max_tokens=3)))).finish_reason == "length"
        done = sum(task.done() for task in tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert done < 100, "those that ended in the second before a2 is owed its turn, and those that ran then"


async def test_every_one_of_several_adapters_gets_its_turn_in_the_memory_for_one(tiny: Tiny) -> None:
    async with running(tiny, max_num_seqs=2, **ONE_ADAPTER) as engine:
        want = {name: (await ask(engine, request(prompt_of(1, 6), name))).tokens for name in ("a1", "a2")}
        rows = [of(X, request(prompt_of(1, 6), name)) for name in ("a1", "a2") for _ in range(10)]
        for asked, got in zip(rows, await ask_all(engine, rows), strict=True):
            assert asked.adapter is not None and got.tokens == want[asked.adapter.digest]


async def test_a_tenant_that_fills_the_queue_is_told_and_another_is_answered(tiny: Tiny) -> None:
    async with running(tiny, max_num_seqs=1, max_waiting=8) as engine:
        flood = [of(X, request(prompt_of(i, 5), max_tokens=60)) for i in range(9)]
        tasks = [asyncio.create_task(ask(engine, flood[0]))]
        await until(lambda: engine.stats().running == 1)
        tasks += [asyncio.create_task(ask(engine, asked)) for asked in flood[1:]]
        await asyncio.sleep(0)
        with pytest.raises(Unavailable) as full:
            await ask(engine, of(X, request((1, 2))))
        light = asyncio.create_task(ask(engine, of(Y, request((1, 2), max_tokens=2))))
        await asyncio.sleep(0)
        with pytest.raises(TooManyRequests) as shared:
            await ask(engine, of(X, request((1, 2))))
        assert type(full.value) is Unavailable and shared.value.retry_after_s >= 1
        assert (await light).finish_reason == "length"
        assert all(one.finish_reason == "length" for one in await asyncio.gather(*tasks))


# -- time --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("adapter", [None, "a1"])
async def test_a_request_that_takes_too_long_ends_with_an_error_and_frees_all(tiny: Tiny, adapter: str | None) -> None:
    async with running(tiny, request_timeout_s=0.3) as engine:
        with pytest.raises(TimedOut, match=r"0\.3 seconds \(request_timeout_s\)"):
            while True:  # on a machine that is fast enough for one of them
                await ask(engine, request(prompt_of(1, 5), adapter, max_tokens=500))
        await settled(engine)
        assert (await ask(engine, request((1, 2), max_tokens=1))).finish_reason == "length"


class SlowSource(FolderSource):
    def folder(self, tenant: str, digest: str) -> Path:
        time.sleep(0.4)
        return super().folder(tenant, digest)


@pytest.mark.parametrize("companions", [False, True])
async def test_time_spent_before_the_batch_counts_too(tiny: Tiny, companions: bool) -> None:
    """Its words are read first, or its weights."""
    source = SlowSource(tiny.root)
    async with running(tiny, source, request_timeout_s=0.1, adapter_companions=companions) as engine:
        with pytest.raises(TimedOut):
            await ask(engine, request((1, 2), "a1"))
        with pytest.raises(TimedOut):
            await engine.pool(reading((1, 2), "a2"))
        await settled(engine)


async def test_whoever_reads_slowly_keeps_no_more_than_his_answer(tiny: Tiny) -> None:
    asked = request(prompt_of(1, 5), max_tokens=50)
    async with running(tiny) as engine, aclosing(engine.generate(asked)) as stream:
        await anext(stream)
        await until(lambda: not engine.stats().running)
        [kept] = engine._streams._open.values()
        assert kept.queue.qsize() == 49
        assert engine.stats().kv_pages_used == 0, "the row has ended, though nobody has read it"


# -- requests that go away (T78) ---------------------------------------------------------------------------------------


class HeldSource(FolderSource):
    """Gives nothing before the gate is open."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.gate = threading.Event()

    def folder(self, tenant: str, digest: str) -> Path:
        assert self.gate.wait(20)
        return super().folder(tenant, digest)


def queued(stats: EngineStats) -> bool:
    return stats.running == 1 and stats.waiting == MANY - 1


def loading(stats: EngineStats) -> bool:
    return stats.waiting == MANY


def in_prefill(stats: EngineStats) -> bool:
    return stats.running > 0 and 0 < stats.prompt_tokens < 400 and stats.waiting + stats.running == MANY


def streaming(stats: EngineStats) -> bool:
    return stats.generated_tokens > 2 * MANY


MANY = times(100, 500)


@pytest.mark.parametrize(
    ("when", "prompt", "changes"),
    [
        (queued, 5, {"max_num_seqs": 1}),
        (loading, 5, {}),
        (in_prefill, 400, {"max_num_batched_tokens": 64, "max_num_seqs": 4}),
        (streaming, 5, {"max_num_seqs": 128}),
    ],
    ids=["queued", "loading", "in prefill", "streaming"],
)
async def test_a_hundred_requests_closed_leave_nothing_and_the_memory_is_anothers_at_once(
    tiny: Tiny, when: Callable[[EngineStats], bool], prompt: int, changes: dict[str, Any]
) -> None:
    source = HeldSource(tiny.root)
    if when is not loading:
        source.gate.set()
    settings = {**ONE_ADAPTER, "adapter_companions": False, "max_num_seqs": 8, **changes}
    async with running(tiny, source, **settings) as engine:
        answers = [
            asyncio.create_task(ask(engine, request(prompt_of(i, prompt), "a1", max_tokens=100))) for i in range(MANY)
        ]
        await until(lambda: when(engine.stats()))
        for one in answers:
            one.cancel()
        assert all(
            isinstance(end, asyncio.CancelledError) for end in await asyncio.gather(*answers, return_exceptions=True)
        )
        source.gate.set()
        await settled(engine)
        began = time.monotonic()
        assert (await ask(engine, request((1, 2), "a2", max_tokens=1))).finish_reason == "length"
        assert time.monotonic() - began < 1.0


async def test_a_hundred_requests_that_time_out_leave_nothing(tiny: Tiny) -> None:
    async with running(tiny, request_timeout_s=0.2, max_num_seqs=4, **ONE_ADAPTER) as engine:
        rows = [request(prompt_of(i, 100), "a1", max_tokens=400) for i in range(MANY)]
        ends = await asyncio.gather(*(ask(engine, one) for one in rows), return_exceptions=True)
        assert sum(isinstance(end, TimedOut) for end in ends) > MANY // 2
        assert all(isinstance(end, TimedOut | Answer) for end in ends)
        await settled(engine)
        assert (await ask(engine, request((1, 2), "a2", max_tokens=1))).finish_reason == "length"


# -- poison ------------------------------------------------------------------------------------------------------------


def overflowing(tensors: Tensors) -> Tensors:
    """Finite values that are accepted, and queries and keys of about 1e36 each at run time."""
    return {name: value * np.float32(1e18) if "q_proj" in name or "k_proj" in name else value
            for name, value in tensors.items()}  # fmt: skip


@pytest.fixture
def source(tiny: Tiny, tmp_path: Path) -> FolderSource:
    for name in ("a1", "a2"):
        edited(tiny.adapter(name), tmp_path / name)
    edited(tiny.adapter("a1"), tmp_path / "poison", overflowing)
    return FolderSource(tmp_path)


ASKED: list[dict[str, Any]] = [
    {},
    {"logprobs": 5},
    {"temperature": 0.8, "seed": 1},
    {"temperature": 1.0, "seed": 1, "top_p": 0.9, "top_k": 5, "min_p": 0.1},
    {"repetition_penalty": 1.3, "presence_penalty": 1.0, "frequency_penalty": 1.0},
    {"logit_bias": ((5, 100.0),)},
    {"logprobs": 2, "min_tokens": 3, "stop_token_ids": (7,)},
    {"prompt_logprobs": 3},
    {"prompt_logprobs": 3, "max_tokens": 0, "echo": True, "logprobs": 3},
]


async def test_a_row_that_overflows_fails_alone_however_it_is_sampled(tiny: Tiny, source: FolderSource) -> None:
    """T34: the neighbours are what they are without it, and so is whoever has its slot and its pages next."""
    async with running(tiny, source) as engine:
        rows = [request(prompt_of(2, 30), name, **asked) for name in ("a1", "a2", None) for asked in ASKED]
        want = await ask_all(engine, rows)
        for asked in ASKED:
            bad = asyncio.create_task(ask(engine, request(prompt_of(2, 30), "poison", **asked)))
            beside = [replace(one, id=f"{one.id}-{asked}") for one in rows]
            for got, right in zip(await ask_all(engine, beside), want, strict=True):
                assert got.tokens == right.tokens and got.chosen == pytest.approx(right.chosen, abs=1e-4)
            with pytest.raises(GenerationFailed, match="not finite"):
                await bad
        await settled(engine)
        after = await ask_all(engine, [replace(one, id=f"{one.id}-after") for one in rows])
        assert [one.tokens for one in after] == [one.tokens for one in want]
        assert engine.stats().failed_rows == len(ASKED)


@pytest.mark.parametrize("pooling", ["mean", "last"])
async def test_a_row_that_overflows_is_not_pooled(tiny: Tiny, source: FolderSource, pooling: Pooling) -> None:
    async with running(tiny, source) as engine:
        want = await engine.pool(reading(prompt_of(2, 30), "a1", pooling))
        bad, got = await asyncio.gather(
            engine.pool(reading(prompt_of(2, 30), "poison", pooling)),
            engine.pool(reading(prompt_of(2, 30), "a1", pooling)),
            return_exceptions=True,
        )
        assert isinstance(bad, GenerationFailed) and "not finite" in bad.message
        assert isinstance(got, Pooled) and got.values == pytest.approx(want.values, abs=1e-4)


# -- memory ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def few_pages(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    """A base whose context is longer than all pages of the smallest cache that can be set."""
    root = tmp_path_factory.mktemp("long")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # transformers' own
        base = make_base(root / "base", max_position_embeddings=4096)
    settings = Settings(home=root / "home", base=str(base), dtype="float32", kv_cache_bytes=1 << 20)
    return Tiny(root, settings, prepare_base(settings))


async def test_rows_that_want_more_pages_than_there_are_take_turns(few_pages: Tiny) -> None:
    async with running(few_pages) as engine:
        assert engine.stats().kv_pages_total == 16
        rows = [of((X, Y)[i % 2], request(prompt_of(i, 400 + 10 * (i % 3)), max_tokens=150)) for i in range(9)]
        want = [await ask(engine, replace(one, id=f"{one.id}-alone")) for one in rows]
        assert [got.tokens for got in await ask_all(engine, rows)] == [one.tokens for one in want]
        assert engine.stats().preemptions > 0


async def test_a_row_longer_than_all_pages_is_refused_up_front(few_pages: Tiny) -> None:
    async with running(few_pages) as engine:
        with pytest.raises(InvalidRequest, match="the context of 1024"):
            await ask(engine, request(prompt_of(1, 1000), max_tokens=25))
        assert engine.stats().steps == 0
        assert (await ask(engine, request(prompt_of(1, 1000), max_tokens=24))).completion_tokens == 24

"""Traffic that goes on: adapters come and go, answers stay right, and in the end nothing is held."""

from __future__ import annotations

import asyncio
import random
from functools import cache
from pathlib import Path
from typing import Any

from support.engines import FolderSource, ask, ask_all, prompt_of, request, running
from support.fixtures import Tiny
from support.oracle import Oracle
from support.scale import times

ADAPTERS = ("a1", "a2", "a3")
#: a1 takes 128 KiB, a2 64 and a3 4: any two of them fit, all three do not.
TWO_ADAPTERS: dict[str, Any] = {"adapter_cache_bytes": 192 << 10}


@cache
def oracle(root: Path, adapter: str | None) -> Oracle:
    return Oracle(root / "base", root / adapter if adapter else None)


@cache
def truth(root: Path, adapter: str | None, prompt: tuple[int, ...], count: int) -> list[int]:
    return oracle(root, adapter).greedy(list(prompt), count)[0]


async def test_random_order_with_one_place_fewer_than_adapters(tiny: Tiny) -> None:
    draw = random.Random(4)
    rows = [
        (prompt_of(draw.randrange(4), 12), draw.choice((*ADAPTERS, None)), draw.randrange(1, 7))
        for _ in range(times(120, 3000))
    ]
    source, turns = FolderSource(tiny.root), asyncio.Semaphore(8)
    async with running(tiny, source, **TWO_ADAPTERS) as engine:

        async def one(prompt: tuple[int, ...], adapter: str | None, count: int) -> None:
            async with turns:
                got = await ask(engine, request(prompt, adapter, max_tokens=count))
                assert got.tokens == truth(tiny.root, adapter, prompt, count), adapter

        await asyncio.gather(*(one(*row) for row in rows))
        assert len(source.reads) > len(ADAPTERS), "adapters had to leave and come back"
        assert engine.stats().adapters_resident <= 2


async def test_adapters_that_leave_and_come_back_answer_the_same(tiny: Tiny) -> None:
    prompt = prompt_of(7, 20)
    async with running(tiny, **TWO_ADAPTERS) as engine:
        for _ in range(times(3, 60)):
            for adapter in ADAPTERS:
                got = await ask(engine, request(prompt, adapter, max_tokens=5))
                assert got.tokens == truth(tiny.root, adapter, prompt, 5)


async def test_loads_do_not_stop_streams_that_run(tiny: Tiny) -> None:
    async with running(tiny, **TWO_ADAPTERS) as engine:
        streams = [request(prompt_of(i, 10), "a1" if i % 2 else None, max_tokens=times(60, 400)) for i in range(8)]
        running_streams = asyncio.create_task(ask_all(engine, streams))
        for turn in range(times(10, 200)):
            await ask(engine, request(prompt_of(turn, 6), ("a2", "a3")[turn % 2], max_tokens=1))
        for one, got in zip(streams, await running_streams, strict=True):
            assert isinstance(one.prompt, tuple)
            adapter = one.adapter.digest if one.adapter else None
            assert got.tokens[:20] == truth(tiny.root, adapter, one.prompt, 20)


async def test_nothing_grows_with_the_number_of_loads(tiny: Tiny) -> None:
    async with running(tiny, **TWO_ADAPTERS) as engine:
        for adapter in ADAPTERS:
            await ask(engine, request(prompt_of(1, 6), adapter, max_tokens=1))
        before = engine.stats()
        for turn in range(times(30, 600)):
            await ask(engine, request(prompt_of(1, 6), ADAPTERS[turn % 3], max_tokens=1))
        after = engine.stats()
        assert (after.adapters_resident, after.adapter_bytes) == (before.adapters_resident, before.adapter_bytes)

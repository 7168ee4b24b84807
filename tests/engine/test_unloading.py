"""Unloading: memory goes when nobody needs it, running answers finish on their version, and nobody else waits."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from graftwork.adapters.companions.companions import NO_COMPANIONS
from graftwork.engine.request import AdapterHandle
from graftwork.engine.residency import MOST_NAMED, OTHER, by_label
from graftwork.engine.residents import InMemory
from support.engines import FolderSource, ask, ask_all, prompt_of, request, running, settled
from support.fixtures import Tiny
from support.scale import times


def handle(name: str) -> AdapterHandle:
    return AdapterHandle(name, "local", f"{name}:1.0.0")


async def test_a_stream_ends_on_the_version_that_is_unloaded_and_nobody_waits_for_it(tiny: Tiny) -> None:
    prompt = prompt_of(2, 9)
    async with running(tiny) as engine:
        alone = await ask(engine, request(prompt, "a1", max_tokens=250))
        stream = asyncio.create_task(ask(engine, request(prompt, "a1", max_tokens=250)))
        while not engine.stats().adapters_pinned:
            await asyncio.sleep(0.001)
        assert await engine.unload(handle("a1"), wait_s=0.02) == 1, "told by its deadline what still needs it"
        assert engine.residency()["a1"].state == "draining"
        assert (await ask(engine, request(prompt, "a2", max_tokens=2))).tokens, "others are served meanwhile"
        late = await ask(engine, request(prompt, "a1", max_tokens=2))
        assert late.tokens == alone.tokens[:2], "what is freed is memory: the name answers on"
        assert not stream.done() and engine.residency()["a1"].state == "draining"
        assert (await stream).tokens == alone.tokens
        await settled(engine)
        assert "a1" not in engine.residency()
        again = await ask(engine, request(prompt, "a1", max_tokens=250))
        assert again.tokens == alone.tokens and engine.stats().adapter_loads == 3


async def test_an_unload_answers_as_soon_as_the_last_row_has_left(tiny: Tiny) -> None:
    async with running(tiny) as engine:
        stream = asyncio.create_task(ask(engine, request(prompt_of(2, 9), "a1", max_tokens=60)))
        while not engine.stats().adapters_pinned:
            await asyncio.sleep(0.001)
        assert await engine.unload(handle("a1"), wait_s=60.0) == 0
        assert (await stream).finish_reason == "length" and engine.stats().adapter_bytes == 0


async def test_a_load_of_what_leaves_keeps_it(tiny: Tiny) -> None:
    async with running(tiny) as engine:
        async with aclosing(engine.generate(request(prompt_of(1, 5), "a1", max_tokens=400))) as stream:
            await anext(stream)
            assert await engine.unload(handle("a1"), wait_s=0) == 1
            assert await engine.load(handle("a1"))
        await settled(engine)
        assert engine.residency()["a1"].state == "resident" and engine.stats().adapter_loads == 1


class ManyVersions(FolderSource):
    """Any number of digests, `a1-7` and so on, of a few folders."""

    def folder(self, tenant: str, digest: str) -> Path:
        super().folder(tenant, digest)
        return self.root / digest.partition("-")[0]


async def test_hundreds_loaded_and_unloaded_give_back_memory_and_disk(tiny: Tiny, tmp_path: Path) -> None:
    kept: dict[str, Any] = {"cache_dir": tmp_path, "form_cache_bytes": 1 << 24, "adapter_companions": False}
    count = times(40, 200)
    source = ManyVersions(tiny.root)
    async with running(tiny, source, **kept) as engine:
        for number in range(count):
            assert await engine.load(handle(f"a1-{number}"))
            if number % 2:  # forms are written after a version is resident: some of them just now
                await asyncio.sleep(0)
            assert await engine.unload(handle(f"a1-{number}")) == 0
            assert engine.stats().adapter_bytes == engine.stats().adapters_resident == 0
        engine._adapters.loader.close()  # the last forms are written
        for number in range(count):
            await engine.unload(handle(f"a1-{number}"), disk=True)
        assert engine.residency() == {} and not [*tmp_path.rglob("*.form")]
        assert engine.stats().adapter_tier_bytes == {"memory": 0, "form": 0}
        assert len(source.removed) == count and source.open == 0


async def test_requests_that_leave_at_any_moment_keep_nothing_from_being_unloaded(tiny: Tiny) -> None:
    """Queued, while loading, in prefill, mid-stream, by a timeout: after each, the version goes within a second."""
    async with running(tiny, max_num_seqs=4, max_num_batched_tokens=64) as engine:

        async def leave(index: int) -> None:
            stream = engine.generate(request(prompt_of(index, 150), "a1", max_tokens=100))
            try:
                async with asyncio.timeout(0.0007 * (index % 40)), aclosing(stream):
                    async for _ in stream:
                        if index % 3 == 0:
                            break
            except TimeoutError:
                return

        for _ in range(times(1, 10)):
            await asyncio.gather(*map(leave, range(40)))
            began = time.monotonic()
            assert await engine.unload(handle("a1"), wait_s=20.0) == 0
            assert time.monotonic() - began < 1 + 4, "a second, and what a busy machine takes"
            await settled(engine)
            async with asyncio.timeout(5):  # one that was on its way when it left may bring it back
                while engine.stats().adapter_bytes:
                    await engine.unload(handle("a1"))
            engine.check()


async def test_streams_run_on_while_twenty_adapters_come_and_go(tiny: Tiny) -> None:
    asked = [request(prompt_of(i, 10), "a1" if i % 2 else None, max_tokens=times(80, 400)) for i in range(8)]
    async with running(tiny, ManyVersions(tiny.root), adapter_companions=False) as engine:
        alone = await ask_all(engine, asked)
        again = [request(one.prompt, "a1" if i % 2 else None, max_tokens=times(80, 400)) for i, one in enumerate(asked)]
        streams = asyncio.create_task(ask_all(engine, again))
        for number in range(20):
            assert await engine.load(handle(f"a2-{number}"))
            assert await engine.unload(handle(f"a2-{number}")) == 0
        for got, want in zip(await streams, alone, strict=True):
            assert got.tokens == want.tokens
        assert engine.stats().adapter_evictions == 20


async def test_an_adapter_used_once_is_still_shown_where_it_is(tiny: Tiny) -> None:
    async with running(tiny) as engine:
        await ask(engine, request(prompt_of(1, 5), "a1", max_tokens=1))
        await settled(engine)
        here, stats = engine.residency()["a1"], engine.stats()
        assert (here.state, here.label, here.rows, here.uses) == ("resident", "a1:1.0.0", 0, 1)
        assert here.used_s == pytest.approx(time.time(), abs=60)
        assert stats.adapter_memory_bytes == {"a1:1.0.0": here.bytes}
        assert stats.adapter_tier_bytes == {"memory": here.bytes, "form": 0}


def test_metrics_name_those_that_were_used_last_and_no_more_however_many_there_are() -> None:
    memory = [InMemory("local", f"a{number}:1.0.0", 5, 0, False, False, float(number), 1) for number in range(10_000)]
    named = by_label(memory)
    assert len(named) == MOST_NAMED + 1 and named["a9999:1.0.0"] == 5
    assert named[OTHER] == 5 * (10_000 - MOST_NAMED)


async def test_a_name_that_moves_brings_its_new_version_if_the_old_one_was_there(tiny: Tiny) -> None:
    async with running(tiny) as engine:
        engine.moved("a1", handle("a2"))
        assert engine.residency() == {}, "nobody used the old one"
        await ask(engine, request(prompt_of(1, 5), "a1", max_tokens=1))
        engine.moved("a1", handle("a2"))
        while engine.residency().get("a2") is None or engine.residency()["a2"].state != "resident":
            await asyncio.sleep(0.001)
        assert await engine.companions(handle("a2")) == NO_COMPANIONS

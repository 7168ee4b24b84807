"""Loading: once for all who wait, patient with stores, whole or not at all, and told from memory after a failure."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch

from graftwork.artifacts.bundle import Manifest
from graftwork.artifacts.stores.memory import MemoryStore
from graftwork.artifacts.working_copy import WorkingCopies
from graftwork.engine import adapter_source
from graftwork.engine.adapter_cache import CalledOff
from graftwork.engine.async_engine import AsyncEngine
from graftwork.engine.background import NICENESS, run_in_background
from graftwork.engine.request import AdapterHandle
from graftwork.errors import Damaged, GraftworkError, Refused, Unavailable
from support.edited import edited
from support.engines import FolderSource, ask, handle_of, prompt_of, request, running, settled
from support.fixtures import Tiny

#: Weights only: what an adapter carries beside them is read by a source's second call.
WEIGHTS: dict[str, Any] = {"adapter_companions": False}


def a1() -> AdapterHandle:
    handle = handle_of("a1")
    assert handle is not None
    return handle


@dataclass
class FlakySource(FolderSource):
    """Does not answer the first `down` times; holds everyone at its gate."""

    down: int = 0
    gate: threading.Event = field(default_factory=threading.Event)

    def folder(self, tenant: str, digest: str) -> Path:
        self.gate.wait(20)
        self.reads.append(digest)
        if len(self.reads) <= self.down:
            raise Unavailable("The store does not answer.")
        return self.root / digest


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapter_source, "FIRST_PAUSE_S", 0.001)


async def fifty(engine: AsyncEngine) -> list[Any]:
    asked = [ask(engine, request(prompt_of(2, 12), "a1", max_tokens=3)) for _ in range(50)]
    return await asyncio.gather(*asked, return_exceptions=True)


async def test_a_store_that_recovers_in_time_is_one_load_for_all(tiny: Tiny) -> None:
    source = FlakySource(tiny.root, down=2)
    source.gate.set()
    async with running(tiny, source, load_retries=3, **WEIGHTS) as engine:
        answers = await fifty(engine)
        assert len({tuple(answer.tokens) for answer in answers}) == 1
        assert source.reads == ["a1"] * 3
        assert engine.stats().adapter_loads == 1


@pytest.mark.parametrize("companions", [False, True])
async def test_a_store_that_fails_is_tried_as_often_as_stated_and_asked_again_once_mended(
    tiny: Tiny, companions: bool
) -> None:
    source = FlakySource(tiny.root, down=2)
    options = {"load_retries": 1, "load_failure_ttl_s": 600.0, "adapter_companions": companions}
    async with running(tiny, source, **options) as engine:
        asking = asyncio.create_task(fifty(engine))
        while len(engine._streams) < 50:
            await asyncio.sleep(0.001)
        source.gate.set()
        assert all(isinstance(error, Unavailable) for error in await asking)
        assert source.reads == ["a1"] * 2, "one attempt, and the one retry that is stated"
        with pytest.raises(Unavailable, match="does not answer"):
            await ask(engine, request(prompt_of(2, 12), "a1"))
        assert len(source.reads) == 2, "told from memory"
        failed = engine.residency()["a1"]
        assert (failed.state, failed.label) == ("failed", "a1:1.0.0")
        assert failed.since_s is not None and failed.retry_s == failed.since_s + 600
        assert await engine.load(a1()), "an explicit load tries at once"
        assert engine.residency()["a1"].state == "resident"
        assert len({tuple(answer.tokens) for answer in await fifty(engine)}) == 1


async def test_a_failure_is_remembered_no_longer_than_stated(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> None:
    source = FolderSource(tiny.root, failure=Damaged("a blob is missing"))
    async with running(tiny, source, load_failure_ttl_s=30.0) as engine:
        with pytest.raises(Damaged):
            await ask(engine, request(prompt_of(1, 5), "a1"))
        source.failure = None
        with pytest.raises(Damaged):
            await ask(engine, request(prompt_of(1, 5), "a1"))
        assert (await ask(engine, request(prompt_of(1, 5), "a2", max_tokens=1))).tokens, "only its own rows fail"
        monkeypatch.setattr(engine._adapters.failures, "_clock", lambda: time.time() + 31)
        assert engine.residency().keys() == {"a2"}
        assert (await ask(engine, request(prompt_of(1, 5), "a1", max_tokens=1))).tokens


async def test_what_is_damaged_or_refused_is_not_tried_again(tiny: Tiny) -> None:
    source = FolderSource(tiny.root, failure=Damaged("a blob is missing"))
    async with running(tiny, source, **WEIGHTS) as engine:
        with pytest.raises(Damaged):
            await ask(engine, request(prompt_of(1, 5), "a1"))
        assert source.reads == ["a1"]
        assert engine.stats().adapter_load_outcomes["damaged"] == 1


class HalfStore(MemoryStore):
    """Breaks off after 60 % of the largest blob, until it is mended."""

    broken = True

    def open(self, tenant: str, digest: str) -> Iterator[bytes]:
        whole = b"".join(super().open(tenant, digest))
        if self.broken and len(whole) == max(map(len, self.blobs.values())):
            yield whole[: len(whole) * 6 // 10]
            raise Unavailable("The connection broke.")
        yield whole


@dataclass
class StoreSource:
    """Real working copies of bundles in a store, by any digest."""

    copies: WorkingCopies
    manifests: dict[str, Manifest]

    @contextmanager
    def files(self, tenant: str, digest: str) -> Iterator[Path]:
        with self.copies.lease(tenant, self.manifests[digest]) as folder:
            yield folder

    def wanted(self, tenant: str, digest: str) -> bool:
        return digest in self.manifests

    def remove(self, tenant: str, digest: str) -> None:
        self.copies.remove(tenant, self.manifests[digest].digest())


async def test_a_store_that_breaks_off_half_way_leaves_nothing_and_loads_once_mended(
    tiny: Tiny, tmp_path: Path
) -> None:
    store, manifest = HalfStore(), Manifest.of_folder(tiny.adapter("a1"))
    for file in manifest.files:
        store.put("local", file.digest, [(tiny.adapter("a1") / file.path).read_bytes()])
    copies = WorkingCopies(tmp_path / "bundles", store)
    source: Any = StoreSource(copies, {"a1": manifest})
    async with running(tiny, source, load_retries=2) as engine:
        before = engine.stats()
        for _ in range(2):
            with pytest.raises(Unavailable, match="connection broke"):
                await ask(engine, request(prompt_of(1, 5), "a1"))
        await settled(engine)
        after = engine.stats()
        assert (after.adapter_bytes, after.adapters_resident) == (before.adapter_bytes, 0)
        assert copies.used_bytes == 0 and not [*tmp_path.rglob("*.safetensors")]
        copies.check()
        store.broken = False
        assert (await ask(engine, request(prompt_of(1, 5), "a1", max_tokens=2))).tokens
        assert copies.used_bytes == manifest.bytes
        assert await engine.unload(a1(), disk=True) == 0 and copies.used_bytes == 0
        assert copies.find("local", manifest.digest()) is None
        copies.check()


async def test_a_wrong_shape_in_the_last_layer_leaves_nothing(tiny: Tiny, tmp_path: Path) -> None:
    last = "layers.3.mlp.down_proj.lora_B"

    def cut(tensors: dict[str, Any]) -> dict[str, Any]:
        return {name: one[:-1] if last in name else one for name, one in tensors.items()}

    edited(tiny.adapter("a1"), tmp_path / "bad", cut)
    source = FolderSource(tmp_path)
    async with running(tiny, source, load_failure_ttl_s=600.0) as engine:
        with pytest.raises(Refused) as caught:
            await ask(engine, request(prompt_of(1, 5), "bad"))
        assert "layers.3.mlp.down_proj" in " ".join(caught.value.problems)
        assert engine.stats().adapter_bytes == engine.stats().adapters_resident == source.open == 0
        assert engine.residency()["bad"].state == "failed"
        (tmp_path / "bad").rename(tmp_path / "worse")
        edited(tiny.adapter("a1"), tmp_path / "bad")
        engine.retry("bad")  # as a push does
        assert (await ask(engine, request(prompt_of(1, 5), "bad", max_tokens=2))).tokens


async def test_a_load_that_nobody_waits_for_any_more_is_called_off(tiny: Tiny) -> None:
    source = FlakySource(tiny.root)
    async with running(tiny, source, **WEIGHTS) as engine:
        rows = [asyncio.create_task(ask(engine, request(prompt_of(1, 5), "a1"))) for _ in range(3)]
        call = asyncio.create_task(engine.load(a1()))
        while "a1" not in engine.residency():
            await asyncio.sleep(0.001)
        assert engine.residency()["a1"].state == "loading"
        for task in (*rows, call):
            task.cancel()
        await asyncio.gather(*rows, call, return_exceptions=True)
        await settled(engine)
        source.gate.set()
        while engine.residency():
            await asyncio.sleep(0.001)
        assert engine.stats().adapter_load_outcomes["called_off"] == 1 and engine.stats().adapters_resident == 0


async def test_a_call_that_does_not_wait_is_told_and_the_load_goes_on(tiny: Tiny) -> None:
    source = FlakySource(tiny.root)
    async with running(tiny, source, **WEIGHTS) as engine:
        assert not await engine.load(a1(), pin=True, wait_s=0)
        source.gate.set()
        async with asyncio.timeout(20):
            while not engine.residency()["a1"].pinned:
                await asyncio.sleep(0.001)
        engine.unpin(a1())


async def test_what_is_unpinned_while_it_loads_is_not_kept(tiny: Tiny) -> None:
    source = FlakySource(tiny.root)
    async with running(tiny, source, **WEIGHTS) as engine:
        assert not await engine.load(a1(), pin=True, wait_s=0)
        waiting = asyncio.create_task(engine.load(a1(), pin=True))
        await asyncio.sleep(0)
        engine.unpin(a1())
        source.gate.set()
        assert await waiting, "it is in memory, as long as nobody needs the room"
        await settled(engine)
        assert not engine.residency()["a1"].pinned


async def test_a_call_for_what_was_just_called_off_is_a_load_of_its_own(tiny: Tiny) -> None:
    """Rows leave while their load reads; whoever calls before it notices gets the version all the same."""
    source = FlakySource(tiny.root)
    async with running(tiny, source, **WEIGHTS) as engine:
        row = asyncio.create_task(ask(engine, request(prompt_of(1, 5), "a1")))
        while "a1" not in engine.residency():
            await asyncio.sleep(0.001)
        row.cancel()
        await asyncio.gather(row, return_exceptions=True)
        await settled(engine)
        call = asyncio.create_task(engine.load(a1()))
        await asyncio.sleep(0)
        source.gate.set()
        assert await call and engine.residency()["a1"].state == "resident"


async def test_a_row_that_comes_while_a_load_is_given_up_is_answered(tiny: Tiny) -> None:
    """The loop hears late of the end of a load that somebody else gave up."""
    source = FlakySource(tiny.root)
    async with running(tiny, source, **WEIGHTS) as engine:
        row = asyncio.create_task(ask(engine, request(prompt_of(1, 5), "a1")))
        while "a1" not in engine.residency():
            await asyncio.sleep(0.001)
        engine._loop.loaded("a1", CalledOff("Nobody waits for it."))
        source.gate.set()
        assert (await row).finish_reason == "length"


async def test_a_load_that_fails_as_its_caller_leaves_is_an_error_for_nobody(tiny: Tiny) -> None:
    lost: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: lost.append(context))
    source = FlakySource(tiny.root)
    async with running(tiny, source, **WEIGHTS) as engine:
        for turns in range(8):  # of the event loop: until then he is on his way in, from then on out
            call = asyncio.create_task(engine.load(a1(), wait_s=0))
            for _ in range(turns):
                await asyncio.sleep(0)
            engine._loaded("a1", Damaged("Other bytes."))
            await asyncio.gather(call, return_exceptions=True)
        source.gate.set()
        del call
        gc.collect()
        assert lost == []


async def test_a_load_waits_for_streams_in_use_and_they_end_rightly(tiny: Tiny) -> None:
    """Memory for two, both in use: a third waits, and neither stream is touched."""
    prompts = {"a1": prompt_of(3, 9), "a2": prompt_of(4, 9)}
    async with running(tiny, adapter_cache_bytes=192 << 10) as engine:
        alone = {name: await ask(engine, request(one, name, max_tokens=200)) for name, one in prompts.items()}
        streams = [
            asyncio.create_task(ask(engine, request(one, name, max_tokens=200))) for name, one in prompts.items()
        ]
        while engine.stats().adapters_pinned < 2:
            await asyncio.sleep(0.001)
        a3 = AdapterHandle("a3", "local", "a3:1.0.0")
        assert not await engine.load(a3, wait_s=0.02)
        assert engine.residency()["a3"].state == "loading"
        for name, stream in zip(prompts, streams, strict=True):
            assert (await stream).tokens == alone[name].tokens
        assert await engine.load(a3)


async def test_whoever_waits_for_a_load_is_told_when_the_engine_stops(tiny: Tiny) -> None:
    source = FlakySource(tiny.root)
    async with running(tiny, source, **WEIGHTS) as engine:
        names = [f"a{number}" for number in range(12)]  # more than there are threads
        calls = [asyncio.create_task(engine.load(AdapterHandle(name, "local", name), wait_s=600.0)) for name in names]
        while len(engine.residency()) < len(names):
            await asyncio.sleep(0.001)
        stopping = asyncio.create_task(engine.stop())
        while not engine._adapters.loader._closed:
            await asyncio.sleep(0.001)
        source.gate.set()
        async with asyncio.timeout(20):
            outcomes = await asyncio.gather(*calls, return_exceptions=True)
        assert all(isinstance(one, Unavailable) and "shutting down" in str(one) for one in outcomes), outcomes
        await stopping


async def test_an_unload_calls_off_a_load_that_nobody_waits_for(tiny: Tiny) -> None:
    source = FlakySource(tiny.root)
    async with running(tiny, source, **WEIGHTS) as engine:
        assert not await engine.load(a1(), wait_s=0)
        assert await engine.unload(a1()) == 0
        source.gate.set()
        while engine.residency():
            await asyncio.sleep(0.001)
        assert engine.stats().adapters_resident == 0


def test_a_background_thread_has_a_lower_priority_and_no_team() -> None:
    seen: dict[str, int] = {}
    mine, big = torch.get_num_threads(), torch.ones(700, 700)
    torch.set_num_threads(mine)  # as an engine does, after which MKL has a number of its own

    def work() -> None:
        run_in_background()
        seen["priority"] = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
        before = set(Path("/proc/self/task").iterdir())
        for made in (torch.mm(big, big), big.bfloat16() @ big.bfloat16(), big * 2):
            made.isfinite().all()
        seen["team"] = len(set(Path("/proc/self/task").iterdir()) - before)
        seen["threads"] = torch.get_num_threads()

    thread = threading.Thread(target=work)
    was = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    thread.start()
    thread.join()
    assert seen == {"priority": NICENESS, "team": 0, "threads": 1}
    assert torch.get_num_threads() == mine and os.getpriority(os.PRIO_PROCESS, threading.get_native_id()) == was


async def test_loads_run_in_such_threads(tiny: Tiny) -> None:
    seen: list[int] = []

    class Noting(FolderSource):
        def folder(self, tenant: str, digest: str) -> Path:
            seen.append(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))
            return super().folder(tenant, digest)

    async with running(tiny, Noting(tiny.root)) as engine:
        await ask(engine, request(prompt_of(1, 5), "a1", max_tokens=1))
    assert seen == [NICENESS, NICENESS]


def test_patience_ends_when_nobody_waits() -> None:
    attempts: list[int] = []

    def go_on() -> None:
        if len(attempts) == 2:
            raise Damaged("enough")

    def attempt() -> None:
        attempts.append(1)
        raise OSError("down")

    with pytest.raises(GraftworkError, match="enough"):
        adapter_source.patiently(attempt, 9, go_on)
    assert len(attempts) == 2

"""Adapter memory: how much is asked for is checked before the base loads, and what leaves gives all of it back."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from graftwork.engine.request import AdapterHandle
from graftwork.errors import Conflict, Unavailable
from support.engines import FolderSource, ask, prompt_of, request, running, settled
from support.fixtures import Tiny
from support.scale import times

#: a1 takes 128 KiB and a2 64: they fit, and nothing beside them.
TWO_ADAPTERS: dict[str, Any] = {"adapter_cache_bytes": 192 << 10}


class ManyVersions(FolderSource):
    """Any number of digests, `a1-7` and so on, of a few folders."""

    def folder(self, tenant: str, digest: str) -> Path:
        super().folder(tenant, digest)
        return self.root / digest.partition("-")[0]


async def test_hundreds_of_versions_come_and_go_and_all_bytes_return(tiny: Tiny) -> None:
    count = times(40, 400)
    async with running(tiny, ManyVersions(tiny.root), **TWO_ADAPTERS) as engine:
        truth = await ask(engine, request(prompt_of(2, 9), "a1-first", max_tokens=2))
        one = engine.stats().adapter_bytes
        most = 0
        for turn in range(count):
            got = await ask(engine, request(prompt_of(2, 9), f"a1-{turn}", max_tokens=2))
            assert got.tokens == truth.tokens
            most = max(most, engine.stats().adapter_bytes)
            engine.check()
        await settled(engine)
        stats = engine.stats()
        assert most <= TWO_ADAPTERS["adapter_cache_bytes"] and stats.adapter_bytes == stats.adapters_resident * one
        assert stats.adapters_pinned == 0


async def test_pins_that_fill_memory_are_told_and_a_call_for_another_is_a_503_in_time(tiny: Tiny) -> None:
    async with running(tiny, **TWO_ADAPTERS) as engine:
        a1, a2, a3 = (AdapterHandle(name, "local", f"{name}:1.0.0") for name in ("a1", "a2", "a3"))
        for handle in (a1, a2):
            assert await engine.load(handle, pin=True)
        began = time.monotonic()
        with pytest.raises(Conflict, match=r"hold 196608 of the 196608 bytes .* needs 4096; unpin one"):
            await engine.load(a3, pin=True)
        asked = [ask(engine, request(prompt_of(1, 9), name)) for name in ("a3", "a1", None, "a3")]
        outcomes = await asyncio.gather(*asked, return_exceptions=True)
        assert time.monotonic() - began < 10, "not only when the load times out"
        assert [isinstance(one, Unavailable) for one in outcomes] == [True, False, False, True], outcomes
        assert "unpin one" in str(outcomes[0])
        assert engine.stats().adapters_resident == engine.stats().adapters_pinned == 2
        engine.unpin(a2)
        assert (await ask(engine, request(prompt_of(1, 9), "a3"))).finish_reason == "length"
        assert set(engine.residency()) == {"a1", "a3"}
        engine.unpin(a1)

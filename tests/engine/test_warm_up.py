"""WarmUp: what was popular is in memory before it is asked for, and nothing hotter leaves for it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from graftwork.engine import popularity as popularity_module
from graftwork.engine import warm_up
from graftwork.engine.popularity import HALF_LIFE_S, Asked, Popularity
from graftwork.engine.request import AdapterHandle
from graftwork.engine.residents import InMemory
from graftwork.engine.warm_up import Candidate, Plan, plan
from support.engines import FolderSource, ask, prompt_of, request, running
from support.fixtures import Tiny

#: Heat and bytes.
Sized = tuple[float, int]


def handle(name: str) -> AdapterHandle:
    return AdapterHandle(name, "local", f"{name}:1.0.0")


def planned(candidates: Mapping[str, Sized], resident: Mapping[str, Sized], free: int, pins: str = "") -> Plan | None:
    ranked = sorted(candidates.items(), key=lambda one: -one[1][0])
    memory = {
        name: InMemory("local", name, size, int(name in pins), False, False, 0.0, 1)
        for name, (_, size) in resident.items()
    }
    heat = {name: one for name, (one, _) in {**candidates, **resident}.items()}
    return plan(iter(Candidate(Asked(handle(name), one), size) for name, (one, size) in ranked), heat, memory, free)


def test_the_most_popular_that_fits_comes_first() -> None:
    assert planned({"a": (5, 10), "b": (3, 10)}, {}, 10) == Plan(handle("a"))
    assert planned({"a": (5, 11), "b": (3, 10)}, {}, 10) == Plan(handle("b"))
    assert planned({"a": (5, 11)}, {}, 10) is None and planned({}, {}, 10) is None


def test_only_what_is_clearly_colder_and_idle_leaves_for_it() -> None:
    resident = {"cold": (1, 6), "cool": (2, 6), "hot": (9, 6)}
    assert planned({"a": (5, 10)}, resident, 0) == Plan(handle("a"), ("cold", "cool"))
    assert planned({"a": (5, 10)}, resident, 4) == Plan(handle("a"), ("cold",))
    assert planned({"a": (5, 10)}, resident, 0, pins="cold") is None
    assert planned({"a": (1.5, 6)}, resident, 0) is None, "not clearly: it would go back and forth"
    assert planned({"a": (20, 18)}, resident, 0) == Plan(handle("a"), ("cold", "cool", "hot"))


def test_requests_count_less_and_less() -> None:
    now = [0.0]
    counts = Popularity(clock=lambda: now[0])
    for _ in range(8):
        counts.note(handle("old"))
    now[0] = 3 * HALF_LIFE_S
    for _ in range(2):
        counts.note(handle("new"))
    counts.note(AdapterHandle("both", "local", "both", ((handle("old"), 1.0), (handle("new"), 1.0))))
    ranked = counts.ranked()
    assert [one.handle.digest for one in ranked] == ["new", "old"]
    assert [one.heat for one in ranked] == pytest.approx([2.0, 1.0])
    counts.forget("new")
    assert [one.handle.digest for one in counts.ranked()] == ["old"]


def test_only_so_many_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(popularity_module, "MOST", 16)
    counts = Popularity()
    for _ in range(3):
        counts.note(handle("hot"))
    for number in range(100):
        counts.note(handle(str(number)))
        assert len(counts.ranked()) <= 16
    assert counts.ranked()[0].handle.digest == "hot"


def test_counts_outlive_the_process_and_damage(tmp_path: Path) -> None:
    file = tmp_path / "cache" / "popularity.json"
    counts = Popularity(file)
    counts.note(handle("a"))
    counts.save()
    assert [one.handle for one in Popularity(file).ranked()] == [handle("a")]
    assert [path.name for path in file.parent.iterdir()] == [file.name]
    for damage in ("", "[1]", "{", json.dumps([["a", "local", "a", "hot", 1]])):
        file.write_text(damage)
        assert Popularity(file).ranked() == []


async def until(engine: Any, names: set[str]) -> None:
    async with asyncio.timeout(20):
        while {one for one, found in engine.residency().items() if found.state == "resident"} != names:
            await asyncio.sleep(0.005)


async def test_an_idle_engine_brings_back_what_was_popular(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warm_up, "IDLE_S", 0.0)
    monkeypatch.setattr(warm_up, "_LOOK_S", 0.01)
    kept: dict[str, Any] = {"cache_dir": tmp_path, "form_cache_bytes": 1 << 24, "adapter_companions": False}
    async with running(tiny, FolderSource(tiny.root), **kept) as engine:
        for name in ("a1", "a1", "a2"):
            await ask(engine, request(prompt_of(1, 5), name, max_tokens=1))
    source = FolderSource(tiny.root)
    async with running(tiny, source, **kept) as engine:
        await until(engine, {"a1", "a2"})
        assert source.reads == [] and engine.stats().adapter_load_outcomes["form"] == 2
        await engine.unload(handle("a1"))
        await asyncio.sleep(0.1)
        assert set(engine.residency()) == {"a2"}, "what somebody unloads stays away until it is asked for"
    async with running(tiny, source, **kept, adapter_cache_bytes=128 << 10) as engine:
        await ask(engine, request(prompt_of(1, 5), "a2", max_tokens=1))  # 64 KiB; a1 would need all 128
        await asyncio.sleep(0.1)
        assert set(engine.residency()) == {"a2"}, "nothing hotter leaves"
    async with running(tiny, FolderSource(tiny.root, unwanted={"a2"}), **kept) as engine:
        await until(engine, {"a1"})
        await asyncio.sleep(0.1)
        assert set(engine.residency()) == {"a1"}, "what nobody may call is not brought"
    async with running(tiny, source, **kept, prefetch=False) as engine:
        await asyncio.sleep(0.1)
        assert engine.residency() == {}


async def test_a_copy_does_not_say_that_its_version_is_wanted(tiny: Tiny) -> None:
    async with running(tiny, adapter_companions=False) as engine:
        answer = await ask(engine, request(prompt_of(1, 5), "a1", max_tokens=1))
        copy = replace(request(prompt_of(1, 5), "a1", max_tokens=1), counts=False)
        assert (await ask(engine, copy)).tokens == answer.tokens
        assert [one.heat for one in engine._adapters._popularity.ranked()] == [pytest.approx(1.0, abs=0.01)]


async def test_what_is_let_go_of_is_room_to_look_at_again(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warm_up, "IDLE_S", 0.3)  # time to pin before the first look
    monkeypatch.setattr(warm_up, "_LOOK_S", 0.01)
    kept: dict[str, Any] = {"cache_dir": tmp_path, "form_cache_bytes": 1 << 24, "adapter_companions": False}
    async with running(tiny, FolderSource(tiny.root), **kept) as engine:
        for _ in range(3):
            await ask(engine, request(prompt_of(1, 5), "a1", max_tokens=1))
    async with running(tiny, FolderSource(tiny.root), **kept, adapter_cache_bytes=192 << 10) as engine:
        await engine.load(handle("a2"), pin=True)  # 64 KiB; the form of a1 has some more than the rest
        found = engine._adapters._warm_up
        assert found is not None
        async with asyncio.timeout(20):
            while found._nothing_to_do is None:
                await asyncio.sleep(0.005)
        engine.unpin(handle("a2"))
        await until(engine, {"a1", "a2"})


def test_counts_that_no_disk_takes_or_gives_are_no_reason_to_fail(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    counts = Popularity(tmp_path / "file" / "popularity.json")
    counts.note(handle("a"))
    counts.save()
    for damaged in ('[["a", "local", "a:1.0.0", 1e400, 0]]', '{"a": 1}', f"[[1, 2, 3, {10**400}, 0]]"):
        (tmp_path / "popularity.json").write_text(damaged)
        assert all(one.heat < float("inf") for one in Popularity(tmp_path / "popularity.json").ranked())

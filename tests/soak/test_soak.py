"""The soak: everything happens to one engine, in any order, and nobody feels what happens to another."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from graftwork.engine.create import create_engine
from graftwork.errors import Damaged, GenerationFailed, Refused, TimedOut, Unavailable
from soak.drawer import Drawn, fill_drawer
from soak.operations import HURRIED, OPERATIONS
from soak.shelf import Shelf
from soak.truths import Truths, find_truths
from soak.world import PATIENCE_S, World
from support.engines import Named
from support.fixtures import Tiny
from support.scale import soak_seed, times

#: Adapters that answer together.
MIXES: tuple[Named, ...] = ((("plain", 0.7), ("rank-1", 0.4)), (("rslora", 0.5), ("patterns", -0.5), ("only-q", 1.0)))
#: A third of what the adapters need, and pages for about half of the rows that a step may have.
SMALL: dict[str, Any] = {
    "adapter_cache_bytes": 2 << 20,
    "kv_cache_bytes": 12 << 16,
    "form_cache_bytes": 16 << 20,
    "max_num_seqs": 24,
    "max_waiting": 64,
    "max_num_batched_tokens": 128,
    "load_timeout_s": PATIENCE_S,
    "load_failure_ttl_s": 0.05,
    "grammar_timeout_s": PATIENCE_S,
}
EXACT: dict[str, Any] = {"deterministic": True}
#: The same numbers of adapters and of pages in half the bytes.
HALF: dict[str, Any] = {
    "dtype": "bfloat16",
    "adapter_cache_bytes": SMALL["adapter_cache_bytes"] // 2,
    "kv_cache_bytes": SMALL["kv_cache_bytes"] // 2,
}


@pytest.fixture(scope="module")
def drawer(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Drawn]:
    return fill_drawer(tiny.root / "base", tmp_path_factory.mktemp("drawer"))


@pytest.fixture(scope="module")
def truths(tiny: Tiny, drawer: Mapping[str, Drawn]) -> Truths:
    """In float32."""
    return truths_of(tiny, drawer, EXACT)


def truths_of(tiny: Tiny, drawer: Mapping[str, Drawn], changes: Mapping[str, Any]) -> Truths:
    [root] = {drawn.folder.parent for drawn in drawer.values()}
    settings = tiny.settings.model_copy(update=dict(changes))
    return asyncio.run(find_truths(Tiny(root, settings, tiny.base), drawer, MIXES))


@asynccontextmanager
async def world_of(
    tiny: Tiny, home: Path, drawer: Mapping[str, Drawn], truths: Truths, **changes: Any
) -> AsyncIterator[World]:
    """A server with every adapter pushed; its end must leave no thread and no open file."""
    others = set(threading.enumerate())  # of engines that earlier tests share
    seed = soak_seed()
    print(f"GRAFTWORK_SOAK_SEED={seed}")
    settings = tiny.settings.model_copy(update=SMALL | changes | {"home": home})  # less than a server would take
    shelf = Shelf(settings, tiny.outline, drawer)
    engine = create_engine(settings, tiny.base, shelf)
    await engine.start()
    try:
        yield World(
            seed, engine, shelf, drawer, truths, exact=settings.deterministic,
            memory_s=settings.load_failure_ttl_s, limit_s=settings.request_timeout_s,
        )  # fmt: skip
    finally:
        await engine.stop()
        shelf.database.close()
    left = set(threading.enumerate()) - others
    assert not [thread.name for thread in left if thread.name.startswith("graftwork")]
    assert not shelf.files_in_use


def check_everything_happened(world: World, operations: Mapping[str, object], *, least_right: float = 0.5) -> None:
    """Else a soak proves little; `least_right` are whole right answers, by the number of operations."""
    stats = world.engine.stats()
    assert set(world.done) == set(operations)
    assert stats.preemptions and stats.adapter_loads > 2 * len(world.drawer), "memory was short"
    assert stats.prefix_cache_hit_tokens, "prompts were shared"
    for error in (Refused, GenerationFailed, Unavailable, Damaged):
        assert any(issubclass(met, error) for met in world.excused), error
    assert world.num_right > world.done.total() * least_right, "requests were answered"


pytestmark = [pytest.mark.soak, pytest.mark.timeout(times(900, 24 * 3600))]


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)  # what is refused is logged, with its trace


async def test_whatever_happens_every_answer_is_that_of_a_solo_run_and_nothing_is_held(
    tiny: Tiny, tmp_path: Path, drawer: Mapping[str, Drawn], truths: Truths
) -> None:
    async with world_of(tiny, tmp_path, drawer, truths, **EXACT) as world:
        await world.run(OPERATIONS, times(7_000, 700_000), rest_every=2_000)
        check_everything_happened(world, OPERATIONS)


async def test_without_the_mode_and_with_a_limit_answers_are_right_or_late(
    tiny: Tiny, tmp_path: Path, drawer: Mapping[str, Drawn], truths: Truths
) -> None:
    async with world_of(tiny, tmp_path, drawer, truths, request_timeout_s=1.0) as world:
        await world.run(HURRIED, times(2_000, 200_000), rest_every=1_000)
        check_everything_happened(world, HURRIED, least_right=0.1)  # another process may have the machine for a while
        assert world.excused[TimedOut]


def test_in_bfloat16(tiny: Tiny, tmp_path: Path, drawer: Mapping[str, Drawn]) -> None:
    changes = EXACT | HALF
    found = truths_of(tiny, drawer, changes)

    async def soak() -> None:
        async with world_of(tiny, tmp_path, drawer, found, **changes) as world:
            await world.run(OPERATIONS, times(1_000, 100_000), rest_every=1_000)
            check_everything_happened(world, OPERATIONS)

    asyncio.run(soak())

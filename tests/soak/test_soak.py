"""The soak: everything happens to one engine, in any order, and nobody feels what happens to another."""

from __future__ import annotations

import logging
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from graftwork.engine.create import create_engine
from soak.drawer import fill_drawer
from soak.operations import OPERATIONS
from soak.shelf import Shelf
from soak.truths import find_truths
from soak.world import PATIENCE_S, World
from support.engines import Named
from support.fixtures import Tiny
from support.scale import soak_seed, times

#: Adapters that answer together.
MIXES: tuple[Named, ...] = ((("plain", 0.7), ("rank-1", 0.4)), (("rslora", 0.5), ("patterns", -0.5), ("only-q", 1.0)))
#: A third of what the adapters need, and pages for about half of the rows that a step may have.
SMALL: dict[str, Any] = {
    "adapter_cache_bytes": 2 << 20,
    "kv_cache_bytes": 1 << 19,
    "form_cache_bytes": 16 << 20,
    "max_num_seqs": 24,
    "max_waiting": 64,
    "max_num_batched_tokens": 128,
    "load_timeout_s": PATIENCE_S,
    "load_failure_ttl_s": 0.0,  # a fault may end before those who ask next
}


@asynccontextmanager
async def world_of(tiny: Tiny, root: Path, seed: int) -> AsyncIterator[World]:
    """A server with every adapter pushed; its end must leave no thread and no open file."""
    drawer = fill_drawer(tiny.root / "base", root / "drawer")
    truths = await find_truths(Tiny(root / "drawer", tiny.settings, tiny.base), drawer, MIXES)
    settings = tiny.settings.model_copy(update=SMALL | {"home": root / "home"})  # less than a server would take
    shelf = Shelf(settings, tiny.outline, drawer)
    engine = create_engine(settings, tiny.base, shelf)
    await engine.start()
    try:
        yield World(seed, engine, shelf, drawer, truths, exact=False)
    finally:
        await engine.stop()
        shelf.database.close()
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("graftwork")]
    assert not shelf.files_in_use


@pytest.mark.soak
@pytest.mark.timeout(times(900, 24 * 3600))
async def test_whatever_happens_every_answer_is_that_of_a_solo_run_and_nothing_is_held(
    tiny: Tiny, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)  # what is refused is logged, with its trace
    seed = soak_seed()
    print(f"GRAFTWORK_SOAK_SEED={seed}")
    async with world_of(tiny, tmp_path, seed) as world:
        await world.run(OPERATIONS, times(10_000, 1_000_000), rest_every=2_000)
        stats = world.engine.stats()
        assert stats.preemptions and stats.adapter_loads > 2 * len(world.drawer), "memory was not short"
        assert set(world.done) == set(OPERATIONS), "everything happened"

"""How much memory do adapters and the base take, over the bytes of their own tensors? In process, without HTTP.

Adapters have rank 8 on q, k, v and o; their own bytes are those of their tensors in the serving dtype. After 1, 10,
100 and 1,000 of them are resident, what they take is counted (the engine's `adapter_bytes`) and measured: the growth
of a process' anonymous memory (`/proc/self/smaps_rollup`: shared pages by their share) since the engine started, with
its tables, its registry, and whatever Python has not given back.

overhead_over_own_bytes          the worst of the counts, over the adapters' own bytes, minus 1; `adapters` has each
hundred_adapters_over_two_bases  growth by 100 adapters, over two plain bases
engine_over_two_bases            all anonymous memory of the process, Python, base and 100 adapters, over them
engine_bytes                     growth by starting the engine, without adapters
base_over_its_bytes              growth by loading the base alone, over its bytes; for the second time in a process, so
                                 that no code comes with it, and beside the first, so that nothing freed is used again
base_counted_over_its_bytes      packed layers and plain parameters counted, over those bytes
tied_head_bytes                  of the head, where it is one tensor with the embedding and stored once: a second copy
                                 in memory is in both lines above; 0 where they are two tensors

    python benchmarks/footprint.py --json
    python benchmarks/footprint.py --counts 1 10 --rank 16
"""

from __future__ import annotations

import argparse
import gc
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from graftwork.engine.create import serving_dtype
from graftwork.engine.memory_need import memory_need
from graftwork.kernels.select import kernels_for
from graftwork.models.load import load_model
from graftwork.models.prepare import prepare_base
from graftwork.settings import Settings
from in_process import EngineInProcess, bench_home, engine_in_process
from random_adapters import ATTENTION, own_bytes
from script import base_of, parser, report

P = ParamSpec("P")
T = TypeVar("T")

_SMAPS = Path("/proc/self/smaps_rollup")


def main() -> None:
    options = parse()
    with base_of(options) as base:
        loaded, figures = in_fresh_process(load_alone, base), in_fresh_process(measure, base, options)
    weights = figures["base_bytes"]
    over = {
        "base_over_its_bytes": _over(loaded.measured, weights),
        "base_counted_over_its_bytes": _over(loaded.counted, weights),
    }
    report(options, figures | over)


def in_fresh_process(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """What `work` gives in a process that has freed nothing yet which it could use again."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(work, *args, **kwargs).result()


def parse() -> argparse.Namespace:
    made = parser(__doc__)
    made.add_argument("--counts", type=int, nargs="+", default=[1, 10, 100, 1000], help="resident adapters")
    made.add_argument("--rank", type=int, default=8)
    made.add_argument("--cache-bytes", type=int, default=4 << 30, help="adapter memory; taken as it is used")
    return made.parse_args()


def measure(base: str, options: argparse.Namespace) -> dict[str, Any]:
    before = anonymous_bytes()
    with engine_in_process(base, adapter_cache_bytes=options.cache_bytes, kv_cache_bytes=1 << 26) as engine:
        engine.generate([1, 2, 3], max_tokens=1)
        started = anonymous_bytes()
        outline, itemsize = engine.outline, engine.dtype.itemsize
        one = own_bytes(outline, options.rank, ATTENTION, itemsize)
        adapters = {str(count): fill(engine, count, options.rank, one, started) for count in sorted(options.counts)}
        weights = memory_need(engine.settings, prepare_base(engine.settings), engine.dtype).base
    hundred = int(adapters["100"]["measured_bytes"]) if "100" in adapters else None
    return {
        "overhead_over_own_bytes": max(found["overhead"] for found in adapters.values()),
        "hundred_adapters_over_two_bases": _over(hundred, 2 * weights),
        "engine_over_two_bases": _over(hundred and started - before + hundred, 2 * weights),
        "engine_bytes": started - before,
        "base_bytes": weights,
        "tied_head_bytes": outline.vocab_size * outline.hidden_size * itemsize if outline.tied else 0,
        "own_bytes_of_one": one,
        "adapters": adapters,
    }


@dataclass(frozen=True)
class Loaded:
    """Bytes that loading a base took: of the process, and of what was found in it."""

    measured: int
    counted: int


def load_alone(base: str) -> Loaded:
    """Load the base, and nothing else of an engine."""
    with bench_home(base) as home:
        settings = Settings(base=base, home=home, cache_dir=home / "cache")
        prepared = prepare_base(settings)
        dtype = serving_dtype(settings, prepared)
        context = prepared.outline.max_context
        first = load_model(prepared, kernels_for("cpu"), dtype, context)
        before = anonymous_bytes()
        second = load_model(prepared, kernels_for("cpu"), dtype, context)
        measured, counted = anonymous_bytes() - before, second.nbytes
        del first, second
    return Loaded(measured, counted)


def fill(engine: EngineInProcess, count: int, rank: int, one: int, started: int) -> dict[str, float]:
    """Register and load adapters until `count` are resident; what all of them take since `started`."""
    there = engine.stats().adapters_resident
    for name in engine.push_random(count - there, first=there, rank_of=lambda _: rank, projections=ATTENTION):
        engine.generate([1, 2, 3], adapter=name, max_tokens=1)
    stats = engine.stats()
    assert stats.adapters_resident == count, "the adapter memory holds them all"
    return {
        "counted_bytes": stats.adapter_bytes,
        "overhead": round(stats.adapter_bytes / (one * count) - 1, 4),
        "measured_bytes": anonymous_bytes() - started,
    }


def anonymous_bytes() -> int:
    """What this process holds of memory that no file backs, shared pages by their share."""
    gc.collect()
    fields = dict(line.split(":", 1) for line in _SMAPS.read_text().splitlines()[1:])
    return sum(int(fields[name].split()[0]) << 10 for name in ("Pss_Anon", "Pss_Shmem"))


def _over(value: int | None, whole: int) -> float | None:
    return None if value is None else round(value / whole, 3)


if __name__ == "__main__":
    main()

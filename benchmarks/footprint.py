"""How much memory do adapters and the base take, over the bytes of their own tensors? In process, without HTTP.

Adapters have rank 8 on q, k, v and o; their own bytes are those of their tensors in the serving dtype. After 1, 10,
100 and 1,000 of them are resident, what they take is counted (the engine's `adapter_bytes`) and measured: the growth
of this process' anonymous memory (`/proc/self/smaps_rollup`: shared pages by their share), kernel tables and all.

overhead_over_own_bytes        the worst of the counts, over the adapters' own bytes, minus 1; `adapters` has each
hundred_adapters_over_two_bases  all anonymous memory the engine has with 100 adapters, over two plain bases
base_over_its_bytes            growth of a fresh process' anonymous memory by loading the base, over the bytes of its
                               weights; `base_counted_over_its_bytes` counts packed layers and plain parameters instead
tied_head_bytes                of the head, where it is one tensor with the embedding and stored once: a second copy in
                               memory is in both lines above; 0 where they are two tensors

    python benchmarks/footprint.py --json
    python benchmarks/footprint.py --counts 1 10 --rank 16
"""

from __future__ import annotations

import argparse
import gc
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch

from graftwork.engine.create import serving_dtype
from graftwork.engine.memory_need import memory_need
from graftwork.kernels.linear import PackedLinear
from graftwork.kernels.select import kernels_for
from graftwork.models.load import load_model
from graftwork.models.prepare import prepare_base
from graftwork.settings import Settings
from in_process import EngineInProcess, bench_home, engine_in_process
from random_adapters import ATTENTION, own_bytes
from script import base_of, parser, report

_SMAPS = Path("/proc/self/smaps_rollup")


def main() -> None:
    options = parse()
    with base_of(options) as base:
        figures = measure(base, options)
    report(options, figures)


def parse() -> argparse.Namespace:
    made = parser(__doc__)
    made.add_argument("--counts", type=int, nargs="+", default=[1, 10, 100, 1000], help="resident adapters")
    made.add_argument("--rank", type=int, default=8)
    made.add_argument("--cache-bytes", type=int, default=4 << 30, help="adapter memory; taken as it is used")
    return made.parse_args()


def measure(base: str, options: argparse.Namespace) -> dict[str, Any]:
    loaded = base_alone(base)
    before = anonymous_bytes()
    with engine_in_process(base, adapter_cache_bytes=options.cache_bytes, kv_cache_bytes=1 << 26) as engine:
        engine.generate([1, 2, 3], max_tokens=1)
        started = anonymous_bytes()
        names = engine.push_random(max(options.counts), rank_of=lambda _: options.rank, projections=ATTENTION)
        itemsize = engine.dtype.itemsize
        one = own_bytes(engine.outline, options.rank, ATTENTION, itemsize)
        weights = memory_need(engine.settings, prepare_base(engine.settings), engine.dtype).base
        outline = engine.outline
        tied = outline.vocab_size * outline.hidden_size * itemsize if outline.tied else 0
        adapters = {str(count): grown(engine, names[:count], one) for count in sorted(options.counts)}
    held = {count: started - before + int(found["measured_bytes"]) for count, found in adapters.items()}
    return {
        "overhead_over_own_bytes": max(found["overhead"] for found in adapters.values()),
        "hundred_adapters_over_two_bases": _over(held.get("100"), 2 * weights),
        "base_over_its_bytes": _over(loaded.measured, weights),
        "base_counted_over_its_bytes": _over(loaded.counted, weights),
        "engine_bytes": started - before,
        "base_bytes": weights,
        "tied_head_bytes": tied,
        "own_bytes_of_one": one,
        "adapters": adapters,
    }


@dataclass(frozen=True)
class Loaded:
    """Bytes that loading a base took: of the process, and of what was found in it."""

    measured: int
    counted: int


def base_alone(base: str) -> Loaded:
    """Load the base in a process of its own, with nothing else of an engine."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_load, base).result()


def _load(base: str) -> Loaded:
    with bench_home(base) as home:
        settings = Settings(base=base, home=home, cache_dir=home / "cache")
        prepared = prepare_base(settings)
        before = anonymous_bytes()
        model = load_model(
            prepared, kernels_for("cpu"), serving_dtype(settings, prepared), prepared.outline.max_context
        )
        measured = anonymous_bytes() - before
        held: dict[int, int] = {}
        for found in gc.get_objects():
            kind = type(found)  # isinstance would wake modules that pretend to be loaded
            if issubclass(kind, PackedLinear):
                held[id(found)] = found.nbytes
            elif issubclass(kind, torch.nn.Parameter):
                held[found.data_ptr()] = found.nbytes
        del model
    return Loaded(measured, sum(held.values()))


def grown(engine: EngineInProcess, names: list[str], one: int) -> dict[str, float]:
    """Load the adapters that are not yet resident; what all of them take."""
    before = anonymous_bytes()
    for name in names[engine.stats().adapters_resident :]:
        engine.generate([1, 2, 3], adapter=name, max_tokens=1)
    stats = engine.stats()
    assert stats.adapters_resident == len(names), "the adapter memory holds them all"
    own = one * len(names)
    return {
        "counted_bytes": stats.adapter_bytes,
        "overhead": round(stats.adapter_bytes / own - 1, 4),
        "measured_bytes": anonymous_bytes() - before,
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

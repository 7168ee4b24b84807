"""A thousand registered adapters, memory for 64 of them: what is left of the speed of 32 that are always resident?

Adapters have rank 8 on q, k, v and o. Requests name them by Zipf's law, the i-th with weight 1/i. The same requests go
in turn to an engine whose adapter memory holds 64, and, with adapter i mod 32 in place of adapter i, to one that keeps
those 32. Both read one real registry. The first engine serves a round before anything is measured, so that its memory
is as full as it will ever be.

ratio     output tokens per second over those of the 32 resident ones, the median over rounds
hit_rate  share of requests whose adapter was resident or already on its way
loads     adapters loaded per round; `setup_s` is the time of all pushes

    python benchmarks/many_adapters.py --json
    python benchmarks/many_adapters.py --registered 100 --rounds 1
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence
from typing import Any

from in_process import EngineInProcess, bench_home, engine_in_process
from load import Load, ratio, summary
from random_adapters import ATTENTION
from script import base_of, load_of, parser, report

#: The least that `adapter_cache_bytes` may be.
_LEAST_BYTES = 1 << 16


def main() -> None:
    options = parse()
    with base_of(options) as base, bench_home(base) as home, engine_in_process(base, home) as roomy:
        began = time.perf_counter()
        names = roomy.push_random(options.registered, rank_of=lambda _: 8, projections=ATTENTION)
        setup_s = time.perf_counter() - began
        load = load_of(options, options.concurrency, roomy.outline.vocab_size, options.requests)
        memory = options.memory_for * bytes_of_one(roomy, names[0])
        roomy.warm(names[: options.resident], load)
        with engine_in_process(base, home, adapter_cache_bytes=max(_LEAST_BYTES, memory)) as tight:
            figures = measure(tight, roomy, names, load, options)
    report(options, figures | {"setup_s": round(setup_s, 1), "adapter_memory_bytes": memory})


def parse() -> argparse.Namespace:
    made = parser(__doc__, rounds=3)
    made.add_argument("--concurrency", type=int, default=32, help="clients at a time")
    made.add_argument("--registered", type=int, default=1000, help="adapters in the registry")
    made.add_argument("--memory-for", type=int, default=64, help="adapters that the first engine's memory holds")
    made.add_argument("--resident", type=int, default=32, help="adapters that the second engine keeps")
    made.add_argument("--requests", type=int, default=0, help="requests of a round; three per client when not given")
    return made.parse_args()


def bytes_of_one(engine: EngineInProcess, name: str) -> int:
    """What one adapter takes of an engine's memory."""
    engine.generate([1, 2, 3], adapter=name, max_tokens=1)
    return engine.stats().adapter_bytes


def measure(
    tight: EngineInProcess, roomy: EngineInProcess, names: Sequence[str], load: Load, options: argparse.Namespace
) -> dict[str, Any]:
    popularity = [1 / rank for rank in range(1, len(names) + 1)]
    resident = [names[index % options.resident] for index in range(len(names))]
    tight.drive(load, names, seed=1000, popularity=popularity)
    many, few, loads = [], [], []
    for turn in range(options.rounds):
        before = tight.stats().adapter_loads
        many.append(tight.drive(load, names, turn, popularity))
        loads.append(tight.stats().adapter_loads - before)
        few.append(roomy.drive(load, resident, turn, popularity))
    return {
        "ratio": ratio(many, few),
        "registered": options.registered,
        "hit_rate": round(1 - sum(loads) / (load.requests * len(loads)), 3),
        "loads": statistics.median(loads),
        "adapters_resident": tight.stats().adapters_resident,
        "many": summary(many),
        "resident": summary(few),
    }


if __name__ == "__main__":
    main()

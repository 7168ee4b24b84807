"""What does an adapter that is not in memory cost: its own first token, and the tokens of everybody else?

`cold_over_warm_ttft`: the time to the first token of a version that has to come from its form on disk, over that of the
same version in memory, as the median over pairs, one right after the other; every prompt is another.

`inter_token_p95_while_loading` and `…_p99_…`: streams on adapters in memory, while others are loaded from their forms
and unloaded again at `--loads-per-s`, over the same streams without loads; rounds by turns, all gaps of each kind
pooled. `from_files` is the same where no form is kept: every load hashes, accounts and converts its files.

    python benchmarks/cold_start.py --json
    python benchmarks/cold_start.py --rounds 2 --streams 4
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
from collections.abc import Sequence
from typing import Any

from graftwork.process import set_turns
from in_process import EngineInProcess, bench_home, engine_in_process
from load import Load, Measured, asks, drive, quantiles
from script import base_of, load_of, parser, report


def main() -> None:
    options = parse()
    set_turns()  # as a server's threads do
    with base_of(options) as base, bench_home(base) as home:
        with engine_in_process(base, home, prefetch=False) as engine:
            names = engine.push_random(options.streams + options.adapters, rank_of=lambda _: 8)
            figures = cold_start(engine, names[options.streams :], options)
            figures |= while_loading(engine, names, options)
        with engine_in_process(base, home, prefetch=False, form_cache_bytes=0) as engine:
            figures["from_files"] = while_loading(engine, names, options)
    report(options, figures)


def parse() -> argparse.Namespace:
    made = parser(__doc__, rounds=6)
    made.add_argument("--streams", type=int, default=8, help="answers that run while adapters load")
    made.add_argument("--adapters", type=int, default=20, help="that are loaded and unloaded")
    made.add_argument("--loads-per-s", type=float, default=10.0, help="begun, one after the other")
    return made.parse_args()


def cold_start(engine: EngineInProcess, names: Sequence[str], options: argparse.Namespace) -> dict[str, Any]:
    """Each adapter cold and warm, one after the other."""
    engine.warm(names, load_of(options, 1, engine.outline.vocab_size))
    cold, warm = [], []
    prompts = asks(Load(1, 2 * len(names), options.prompt_tokens, 1, engine.outline.vocab_size), names, seed=1)
    for name in names:
        engine.unload(name)
        cold.append(engine.first_token_s(name, next(prompts).prompt))
        warm.append(engine.first_token_s(name, next(prompts).prompt))
    return {
        "cold_over_warm_ttft": round(statistics.median(one / other for one, other in zip(cold, warm, strict=True)), 3),
        "cold_ttft_ms": quantiles(cold),
        "warm_ttft_ms": quantiles(warm),
    }


def while_loading(engine: EngineInProcess, names: Sequence[str], options: argparse.Namespace) -> dict[str, Any]:
    """The same streams without loads and with them, by turns."""
    streaming, others = names[: options.streams], names[options.streams :]
    load = load_of(options, options.streams, engine.outline.vocab_size, options.streams)
    engine.warm(names, load)
    for name in others:
        engine.unload(name)
    plain, loading = Measured(), Measured()
    loads_before = engine.stats().adapter_loads
    for turn in range(2 * options.rounds):
        if turn % 4 in (0, 3):  # neither kind is always the first
            _add(plain, engine.drive(load, streaming, turn, in_turn=True))
        else:
            _add(loading, engine.run(_with_loads(engine, load, streaming, others, turn, 1 / options.loads_per_s)))
    without, beside = quantiles(plain.gaps_s), quantiles(loading.gaps_s)
    return {
        "inter_token_p95_while_loading": round(beside["p95"] / without["p95"], 3),
        "inter_token_p99_while_loading": round(beside["p99"] / without["p99"], 3),
        "inter_token_ms": {"without": without, "while_loading": beside},
        "loads": engine.stats().adapter_loads - loads_before,
        "errors": plain.errors + loading.errors,
    }


async def _with_loads(
    engine: EngineInProcess, load: Load, streaming: Sequence[str], others: Sequence[str], seed: int, every_s: float
) -> Measured:
    """One round, beside which `others` are loaded and unloaded, round and round."""

    async def come_and_go() -> None:
        number = 0
        while True:
            name, number = others[number % len(others)], number + 1
            await asyncio.gather(engine.come_and_go(name), asyncio.sleep(every_s))

    coming = asyncio.create_task(come_and_go())
    try:
        return await drive(engine.door(), load, streaming, seed, in_turn=True)
    finally:
        coming.cancel()
        await asyncio.gather(coming, return_exceptions=True)


def _add(to: Measured, one: Measured) -> None:
    to.gaps_s += one.gaps_s
    to.errors += one.errors


if __name__ == "__main__":
    main()

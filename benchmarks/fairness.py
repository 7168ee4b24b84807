"""A light tenant beside one that floods: does its request take longer than with a free row? And is any adapter starved?

Two tenants share one engine of `--rows` rows. The light one asks now and then, one request at a time, up to half a
second after the last answer; the other keeps either all rows but one busy, so that a row is always free, or four times
as many requests in the queue as there are rows. Both are measured in turn, several times.

light_over_free_row    the light tenant's times beside the flood over those with a free row: the larger of first token
                       and whole answer, medians over all its requests
starvation_bound_held  whether three adapters, asked for at once where memory holds one and a popular one takes it
                       without a pause, each gave their first token within the bound of
                       docs/howto/share-between-tenants.md for the longest answer and the longest load that were seen

    python benchmarks/fairness.py --json
    python benchmarks/fairness.py --rows 32 --flood-prompt-tokens 1024
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import random
import statistics
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from graftwork.engine.request import Caller
from graftwork.engine.waiting_room import longest_wait_s
from in_process import EngineInProcess, bench_home, engine_in_process
from load import Ask, Door, Load, asks, quantiles
from random_adapters import ATTENTION
from script import base_of, parser, report

FLOOD, LIGHT = Caller("flood"), Caller("light")
#: Requests that the flood has in the queue, for each row.
_DEPTH = 4
_PAUSE_S = 0.5
_ENDLESS = 1 << 30


@dataclass
class Times:
    """Of several answers, in seconds since each was asked for."""

    first_s: list[float] = field(default_factory=list)
    whole_s: list[float] = field(default_factory=list)

    async def ask(self, door: Door, ask: Ask) -> None:
        began = time.perf_counter()
        answered = await door(ask)
        self.first_s.append(answered.times_s[0] - began)
        self.whole_s.append(answered.times_s[-1] - began)

    def over(self, other: Times) -> float:
        ratios = (
            statistics.median(mine) / statistics.median(theirs)
            for mine, theirs in ((self.first_s, other.first_s), (self.whole_s, other.whole_s))
        )
        return round(max(ratios), 3)

    def shown(self) -> dict[str, Any]:
        return {"first_token_ms": quantiles(self.first_s), "answer_ms": quantiles(self.whole_s)}


def main() -> None:
    options = parse()
    with base_of(options) as base, bench_home(base) as home:
        with engine_in_process(base, home, max_num_seqs=options.rows) as engine:
            names = engine.push_random(4, rank_of=lambda _: 8, projections=ATTENTION)
            engine.warm(names, replace(flood_of(engine, options), requests=options.rows))
            figures = beside_a_flood(engine, names[0], options)
            memory = engine.stats().adapter_bytes // len(names)
        with engine_in_process(base, home, max_num_seqs=options.rows, adapter_cache_bytes=memory * 3 // 2) as engine:
            figures |= short_of_memory(engine, names, options)
    report(options, figures)


def parse() -> argparse.Namespace:
    made = parser(__doc__, rounds=3)
    made.add_argument("--rows", type=int, default=8, help="rows of the engine (max_num_seqs)")
    made.add_argument("--flood-prompt-tokens", type=int, default=128, help="of the flooding tenant's requests")
    made.add_argument("--flood-output-tokens", type=int, default=64, help="of its answers")
    made.add_argument("--requests", type=int, default=12, help="of the light tenant, in each round of each kind")
    made.set_defaults(output_tokens=32)
    return made.parse_args()


def flood_of(engine: EngineInProcess, options: argparse.Namespace) -> Load:
    prompt, output = options.flood_prompt_tokens, options.flood_output_tokens
    return Load(options.rows, _ENDLESS, prompt, output, engine.outline.vocab_size)


def beside_a_flood(engine: EngineInProcess, name: str, options: argparse.Namespace) -> dict[str, Any]:
    light, load = engine.door(LIGHT), flood_of(engine, options)
    own = Load(1, _ENDLESS, options.prompt_tokens, options.output_tokens, load.vocab)
    requests = asks(own, [name], seed=1)
    free, full, pauses = Times(), Times(), random.Random(0)

    async def measure(clients: int, seed: int, times: Times) -> None:
        async with flooded(engine, asks(load, [name], seed), clients, options.rows):
            for _ in range(options.requests):
                await asyncio.sleep(pauses.uniform(0, _PAUSE_S))
                await times.ask(light, next(requests))

    for turn in range(options.rounds):
        engine.run(measure(options.rows - 1, 2 * turn + 10, free))
        engine.run(measure(_DEPTH * options.rows, 2 * turn + 11, full))
    return {
        "light_over_free_row": full.over(free),
        "rows": options.rows,
        "beside_a_flood": full.shown(),
        "with_a_free_row": free.shown(),
        "preemptions": engine.stats().preemptions,
    }


def short_of_memory(engine: EngineInProcess, names: list[str], options: argparse.Namespace) -> dict[str, Any]:
    popular, starving = names[0], names[1:]
    load = flood_of(engine, options)
    own = Load(1, _ENDLESS, options.prompt_tokens, options.output_tokens, load.vocab)
    loads, waits, answers = Times(), Times(), Times()

    async def measure() -> None:
        for ask in itertools.islice(asks(own, names, seed=3, in_turn=True), 2 * len(names)):
            await loads.ask(engine.door(LIGHT), ask)  # each has left memory by its turn
        async with flooded(engine, asks(load, [popular], seed=4), _DEPTH * options.rows, options.rows, answers):
            these = itertools.islice(asks(own, starving, seed=5, in_turn=True), len(starving))
            await asyncio.gather(*(waits.ask(engine.door(LIGHT), ask) for ask in these))

    engine.run(measure())
    longest_s = max(whole - first for first, whole in zip(answers.first_s, answers.whole_s, strict=True))
    bound_s = longest_wait_s(len(starving), longest_s, max(loads.first_s))
    return {
        "starvation_bound_held": max(waits.first_s) <= bound_s,
        "starvation": {"longest_wait_s": round(max(waits.first_s), 2), "bound_s": round(bound_s, 2)},
    }


@asynccontextmanager
async def flooded(
    engine: EngineInProcess, requests: Iterator[Ask], clients: int, rows: int, times: Times | None = None
) -> AsyncIterator[None]:
    """Inside the block so many clients ask without a pause; it begins once they fill their rows."""
    door, times = engine.door(FLOOD), times or Times()

    async def client() -> None:
        for ask in requests:
            await times.ask(door, ask)

    tasks = [asyncio.create_task(client()) for _ in range(clients)]
    try:
        while engine.stats().running < min(clients, rows):
            await asyncio.sleep(0.01)
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


if __name__ == "__main__":
    main()

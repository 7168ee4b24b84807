"""How fast does one server answer C clients at once over N adapters? Closed loop over HTTP, streamed.

Starts its own server, makes its own adapters (rank 8 and 16 by turns, on every linear layer), and asks for 64 tokens
after different prompts of 128 tokens. Every round runs three loads in turn, so that a ratio compares neighbours in
time: over the adapters and over the plain base, both through HTTP, and over the adapters on an engine in this process.

ratio_adapters_to_base   output tokens per second with adapters over those of the plain base
http_over_engine         the server's output tokens per second over those of the engine without HTTP; 1.0: HTTP is free
step_over_floor          the engine's decode step in those rounds over what the machine must take (`floor.py`: a + b)
inter_token_over_floor   the same of the median time between two tokens as an HTTP client sees it

    python benchmarks/serving.py --concurrency 32 --adapters 32 --json
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from floor import FloorOfModel, decode_step_s
from graftwork.cli.demo_server import running_server
from graftwork.client import Client
from in_process import EngineInProcess, bench_home, engine_in_process
from load import Load, Measured, OverHttp, drive, ratio, summary
from random_adapters import mixed_ranks, write_adapter
from script import base_of, load_of, parser, report


def main() -> None:
    options = parse()
    with (
        base_of(options) as base,
        engine_in_process(base) as engine,
        bench_home(base) as home,
        running_server(home, home / "cache", base) as server,
    ):
        with Client(server.url) as client:
            wait_until_ready(client)
            names = push(client, engine, options.adapters, home / "made")
            rounds = Rounds(OverHttp(server.url), engine, names, options)
            rounds.warm()
            for turn in range(options.rounds):
                rounds.run(turn)
            distinct = client.engine()["max_distinct_adapters_in_step"]
        figures = rounds.figures()
    report(options, figures | {"max_distinct_adapters_in_step": distinct})


def parse() -> argparse.Namespace:
    made = parser(__doc__, rounds=3)
    made.add_argument("--concurrency", type=int, default=32, help="clients at a time")
    made.add_argument("--adapters", type=int, default=32, help="adapters to draw from; 0: the base only")
    made.add_argument("--requests", type=int, default=0, help="requests of a round; three per client when not given")
    made.add_argument("--base-rounds", action=argparse.BooleanOptionalAction, default=True, help="also the plain base")
    return made.parse_args()


def wait_until_ready(client: Client) -> None:
    while client.ready():
        time.sleep(0.1)


def push(client: Client, engine: EngineInProcess, count: int, folder: Path) -> list[str]:
    """The same adapters, by the same names, for the server and the engine."""
    names = engine.push_random(count)
    for index, name in enumerate(names):
        client.push(write_adapter(folder, engine.outline, rank=mixed_ranks(index), seed=index), name)
    return names


def distinct(adapters: int, rows: int) -> int:
    """How many different adapters so many rows have, on average, when each draws one uniformly."""
    return round(adapters * (1 - (1 - 1 / adapters) ** rows)) if adapters else 0


class Rounds:
    """The loads that are run in turn, and what was measured so far."""

    def __init__(
        self, door: OverHttp, engine: EngineInProcess, names: Sequence[str], options: argparse.Namespace
    ) -> None:
        self._door, self._engine, self._options = door, engine, options
        self._base, self._names = [engine.base], names or [engine.base]
        self._load = load_of(options, options.concurrency, engine.outline.vocab_size, options.requests)
        self._floor = FloorOfModel(engine.outline, engine.dtype)
        self._served: list[Measured] = []
        self._base_served: list[Measured] = []
        self._in_process: list[Measured] = []
        self._steps_over_floor: list[float] = []
        self._gaps_over_floor: list[float] = []

    def warm(self) -> None:
        """Load every adapter on both sides, so that a round measures serving and not loading."""
        for name in self._names:
            self._serve(Load(1, 1, 3, 1, self._load.vocab), [name], 0)
        self._engine.warm(self._names, self._load)

    def run(self, turn: int) -> None:
        """One round of each load, and the floor."""
        rows, options = self._load.concurrency, self._options
        context = options.prompt_tokens + options.output_tokens // 2
        floor_s = self._floor.measure(rows, context, distinct(options.adapters, rows)).total_s
        self._served.append(self._serve(self._load, self._names, turn))
        with self._engine.observed() as steps:
            self._in_process.append(self._engine.drive(self._load, self._names, turn))
        self._steps_over_floor.append(decode_step_s(steps, rows) / floor_s)
        self._gaps_over_floor.append(statistics.median(self._served[-1].gaps_s) / floor_s)
        if options.base_rounds and self._names != self._base:
            self._base_served.append(self._serve(self._load, self._base, turn))

    def _serve(self, load: Load, names: Sequence[str], seed: int) -> Measured:
        return asyncio.run(drive(self._door, load, names, seed))

    def figures(self) -> dict[str, Any]:
        """Medians over the rounds."""
        made: dict[str, Any] = {
            "concurrency": self._load.concurrency,
            "adapters": self._options.adapters,
            **summary(self._served),
            "http_over_engine": ratio(self._served, self._in_process),
            "step_over_floor": round(statistics.median(self._steps_over_floor), 3),
            "inter_token_over_floor": round(statistics.median(self._gaps_over_floor), 3),
            "in_process": summary(self._in_process),
        }
        if self._base_served:
            made["ratio_adapters_to_base"] = ratio(self._served, self._base_served)
            made["base_only"] = summary(self._base_served)
        return made


if __name__ == "__main__":
    main()

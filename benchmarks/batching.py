"""What does batching bring? The same requests from 1, 2, 4 … clients at a time, in process, without HTTP.

Every request draws one of N adapters, so a batch mixes them; `--adapters 0` asks the base alone. A round runs every
number of clients in turn. `ratio` is the output tokens per second with the most clients over those with the fewest,
as the median over rounds; `curve` shows for each number the throughput, and what it costs the single answer: the time
to its first token and between two tokens.

    python benchmarks/batching.py --json
    python benchmarks/batching.py --concurrency 1 8 --rounds 1
"""

from __future__ import annotations

import argparse
from typing import Any

from in_process import EngineInProcess, engine_in_process
from load import Measured, ratio, summary
from script import base_of, load_of, parser, report


def main() -> None:
    options = parse()
    with base_of(options) as base, engine_in_process(base) as engine:
        figures = measure(engine, options)
    report(options, figures)


def parse() -> argparse.Namespace:
    made = parser(__doc__, rounds=3)
    made.add_argument("--concurrency", type=int, nargs="+", default=[1, 2, 4, 8, 16, 32], help="clients at a time")
    made.add_argument("--adapters", type=int, default=32, help="adapters to draw from; 0: the base only")
    return made.parse_args()


def measure(engine: EngineInProcess, options: argparse.Namespace) -> dict[str, Any]:
    numbers = sorted(options.concurrency)
    loads = {number: load_of(options, number, engine.outline.vocab_size) for number in numbers}
    names = engine.push_random(options.adapters)
    engine.warm(names, loads[numbers[-1]])
    rounds: dict[int, list[Measured]] = {number: [] for number in numbers}
    for turn in range(options.rounds):
        for number in numbers:
            rounds[number].append(engine.drive(loads[number], names or [engine.base], turn))
    return {
        "ratio": ratio(rounds[numbers[-1]], rounds[numbers[0]]),
        "adapters": options.adapters,
        "curve": {str(number): summary(found) for number, found in rounds.items()},
    }


if __name__ == "__main__":
    main()

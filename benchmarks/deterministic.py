"""What does the deterministic mode cost, and does it keep its word? The load of `serving.py`, in process.

Two engines with the same adapters, one in each mode. A round drives the same load over both in turn; `ratio` is the
output tokens per second of the deterministic one over those of the other, as the median over rounds. Then rows of that
load are asked of the deterministic engine all together and eight of them alone: `bit_equal` says that every token and
every log-probability of these was the same number both times. `normal_bit_equal` says the same of the other engine,
where nobody promises it.

    python benchmarks/deterministic.py --json
    python benchmarks/deterministic.py --concurrency 1 --adapters 1
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from in_process import EngineInProcess, engine_in_process
from load import Ask, asks, ratio, summary
from script import base_of, load_of, parser, report

#: Rows, at most, that are asked alone as well.
ALONE = 8


def main() -> None:
    options = parse()
    with (
        base_of(options) as base,
        engine_in_process(base) as normal,
        engine_in_process(base, deterministic=True) as steady,
    ):
        figures = measure(normal, steady, options)
    report(options, figures)


def parse() -> argparse.Namespace:
    made = parser(__doc__, rounds=3)
    made.add_argument("--concurrency", type=int, default=32, help="clients at a time")
    made.add_argument("--adapters", type=int, default=32, help="adapters to draw from; 0: the base only")
    made.add_argument("--requests", type=int, default=0, help="requests of a round; three per client when not given")
    return made.parse_args()


def measure(normal: EngineInProcess, steady: EngineInProcess, options: argparse.Namespace) -> dict[str, Any]:
    load = load_of(options, options.concurrency, steady.outline.vocab_size, options.requests)
    for engine in (normal, steady):
        names = engine.push_random(options.adapters) or [engine.base]
        engine.warm(names, load)
    rounds = [(steady.drive(load, names, turn), normal.drive(load, names, turn)) for turn in range(options.rounds)]
    ours, theirs = ([pair[which] for pair in rounds] for which in (0, 1))
    rows = list(asks(load, names, options.rounds))[: load.concurrency]
    return {
        "bit_equal": bit_equal(steady, rows),
        "ratio": ratio(ours, theirs),
        "concurrency": options.concurrency,
        "adapters": options.adapters,
        "normal_bit_equal": bit_equal(normal, rows),
        "deterministic": summary(ours),
        "normal": summary(theirs),
    }


def bit_equal(engine: EngineInProcess, rows: Sequence[Ask]) -> bool:
    """Whether the tokens and log-probabilities of some rows are the same alone and beside all the others."""
    together = engine.answers(rows)[:: -(-len(rows) // ALONE)]
    return together == [engine.answers([row])[0] for row in rows[:: -(-len(rows) // ALONE)]]


if __name__ == "__main__":
    main()

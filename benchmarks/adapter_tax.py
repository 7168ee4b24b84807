"""What do adapters cost the traffic that uses them, and the traffic that does not? In process, without HTTP.

Every round runs three loads in turn: over N adapters, over the base on the same engine with those adapters resident,
and over the base on a second engine that never saw an adapter; then one client with one adapter, and with the base.
Figures are medians of ratios of output tokens per second within a round; 1.0 is no cost.

c32                 N adapters over the base only, C clients (32 and 32 unless told otherwise: the key says C)
c1                  one client with one adapter over one with the base
base_only           the base beside N resident adapters, over the base alone
base_only_launches  adapter kernel launches in those rounds of the base: 0, or base rows pay for adapters

    python benchmarks/adapter_tax.py --json
    python benchmarks/adapter_tax.py --concurrency 8 --adapters 8 --rounds 2
"""

from __future__ import annotations

import argparse
from typing import Any

from in_process import EngineInProcess, engine_in_process
from load import Measured, ratio, summary
from script import base_of, load_of, parser, report


def main() -> None:
    options = parse()
    with base_of(options) as base, engine_in_process(base) as engine, engine_in_process(base) as bare:
        figures = measure(engine, bare, options)
    report(options, figures)


def parse() -> argparse.Namespace:
    made = parser(__doc__, rounds=5)
    made.add_argument("--concurrency", type=int, default=32, help="clients at a time")
    made.add_argument("--adapters", type=int, default=32, help="adapters to draw from")
    made.add_argument("--requests", type=int, default=0, help="requests of a round; three per client when not given")
    return made.parse_args()


def measure(engine: EngineInProcess, bare: EngineInProcess, options: argparse.Namespace) -> dict[str, Any]:
    vocab = engine.outline.vocab_size
    many, one = load_of(options, options.concurrency, vocab, options.requests), load_of(options, 1, vocab)
    names, launches = engine.push_random(options.adapters), 0
    engine.warm(names, many)
    bare.warm([], many)
    rounds: dict[str, list[Measured]] = {key: [] for key in ("adapters", "base", "bare", "one_adapter", "one_base")}
    for turn in range(options.rounds):
        rounds["adapters"].append(engine.drive(many, names, turn))
        before = engine.stats().adapter_kernel_launches
        rounds["base"].append(engine.drive(many, [engine.base], turn))
        launches += engine.stats().adapter_kernel_launches - before
        rounds["bare"].append(bare.drive(many, [bare.base], turn))
        rounds["one_adapter"].append(engine.drive(one, names[:1], turn))
        rounds["one_base"].append(engine.drive(one, [engine.base], turn))
    return {
        f"c{options.concurrency}": ratio(rounds["adapters"], rounds["base"]),
        "c1": ratio(rounds["one_adapter"], rounds["one_base"]),
        "base_only": ratio(rounds["base"], rounds["bare"]),
        "base_only_launches": launches,
        "adapters": options.adapters,
        "loads": {key: summary(found) for key, found in rounds.items()},
    }


if __name__ == "__main__":
    main()

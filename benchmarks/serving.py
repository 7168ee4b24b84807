"""How fast does one server answer C clients at once over N adapters? Closed loop over HTTP, streamed.

Starts its own server, makes its own adapters (rank 8 and 16 by turns, on every linear layer), and asks for 64 tokens
after different prompts of 128 tokens. Rounds with adapters and rounds on the plain base are run in turn, so that their
ratio holds on a noisy machine.

    python benchmarks/serving.py --concurrency 32 --adapters 32 --json
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from graftwork.cli.demo_server import running_server
from graftwork.client import Client
from graftwork.models.prepare import prepare_base
from graftwork.settings import Settings
from load import Load, Measured, OverHttp, drive, ratio, summary
from random_adapters import mixed_ranks, write_adapter


def main() -> None:
    options = parse()
    settings = Settings(base=options.base)
    outline = prepare_base(settings).outline
    load = Load(options.concurrency, options.requests or 3 * options.concurrency, options.prompt_tokens,
                options.output_tokens, outline.vocab_size)  # fmt: skip
    with tempfile.TemporaryDirectory() as folder, running_server(Path(folder), settings.cache, options.base) as server:
        names, door = [], OverHttp(server.url)
        with Client(server.url) as client:
            wait_until_ready(client)
            for index in range(options.adapters):
                made = write_adapter(Path(folder) / "made", outline, rank=mixed_ranks(index), seed=index)
                client.push(made, f"bench-{index}")
                names.append(f"bench-{index}")
        warm(door, names or [outline.base], load)
        with_adapters, base_only = [], []
        for turn in range(options.rounds):
            if names:
                with_adapters.append(asyncio.run(drive(door, load, names, seed=turn)))
            if options.base_rounds or not names:
                base_only.append(asyncio.run(drive(door, load, [outline.base], seed=100 + turn)))
        with Client(server.url) as client:
            engine = client.engine()
    report(options, with_adapters, base_only, engine)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--concurrency", type=int, default=32, help="clients at a time")
    parser.add_argument("--adapters", type=int, default=32, help="adapters to draw from; 0: the base only")
    parser.add_argument("--requests", type=int, default=0, help="requests of a round; three per client when not given")
    parser.add_argument("--rounds", type=int, default=2, help="rounds of each kind, run in turn")
    parser.add_argument(
        "--base-rounds", action=argparse.BooleanOptionalAction, default=True, help="also the plain base"
    )
    parser.add_argument("--prompt-tokens", type=int, default=128)
    parser.add_argument("--output-tokens", type=int, default=64)
    parser.add_argument("--base", default="smollm2-135m")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser.parse_args()


def wait_until_ready(client: Client) -> None:
    while client.ready():
        time.sleep(0.1)


def warm(door: OverHttp, names: Sequence[str], load: Load) -> None:
    """Load every adapter once, so that a round measures serving and not loading."""
    for name in names:
        asyncio.run(drive(door, Load(1, 1, 3, 1, load.vocab), [name], seed=0))


def report(
    options: argparse.Namespace, with_adapters: list[Measured], base_only: list[Measured], engine: dict[str, Any]
) -> None:
    main_rounds = with_adapters or base_only
    made: dict[str, Any] = {
        "base": options.base,
        "concurrency": options.concurrency,
        "adapters": options.adapters,
        "prompt_tokens": options.prompt_tokens,
        "output_tokens": options.output_tokens,
        **summary(main_rounds),
        "max_distinct_adapters_in_step": engine["max_distinct_adapters_in_step"],
    }
    if with_adapters and base_only:
        made["base_only"] = summary(base_only)
        made["ratio_adapters_to_base"] = ratio(with_adapters, base_only)
    print(json.dumps(made) if options.json else json.dumps(made, indent=2))


if __name__ == "__main__":
    main()

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
import random
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx

from graftwork.cli.demo_server import running_server
from graftwork.client import Client
from graftwork.models.prepare import prepare_base
from graftwork.settings import Settings
from graftwork.testing import write_lora


@dataclass(frozen=True)
class Load:
    """One closed-loop load: `concurrency` clients, each asking again as soon as it is answered."""

    concurrency: int
    requests: int
    prompt_tokens: int
    output_tokens: int
    vocab: int


@dataclass
class Measured:
    """Times of one round, in seconds."""

    wall_s: float = 0.0
    tokens: int = 0
    errors: int = 0
    ttft_s: list[float] = field(default_factory=list)
    gaps_s: list[float] = field(default_factory=list)

    @property
    def tokens_per_s(self) -> float:
        return self.tokens / self.wall_s


def main() -> None:
    options = parse()
    settings = Settings(base=options.base)
    outline = prepare_base(settings).outline
    load = Load(options.concurrency, options.requests or 3 * options.concurrency, options.prompt_tokens,
                options.output_tokens, outline.vocab_size)  # fmt: skip
    with tempfile.TemporaryDirectory() as folder, running_server(Path(folder), settings.cache, options.base) as server:
        names = []
        with Client(server.url) as client:
            wait_until_ready(client)
            for index in range(options.adapters):
                made = write_lora(Path(folder) / f"a{index}", outline, rank=8 + 8 * (index % 2), seed=index)
                client.push(made, f"bench-{index}")
                names.append(f"bench-{index}")
        asyncio.run(warm(server.url, names))
        with_adapters, base_only = [], []
        for turn in range(options.rounds):
            if names:
                with_adapters.append(asyncio.run(drive(server.url, load, names, seed=turn)))
            if options.base_rounds or not names:
                base_only.append(asyncio.run(drive(server.url, load, [outline.base], seed=100 + turn)))
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


async def warm(url: str, names: Sequence[str]) -> None:
    """Load every adapter once, so that a round measures serving and not loading."""
    async with httpx.AsyncClient(base_url=url, timeout=300) as http:
        for name in names:
            body = {"model": name, "prompt": [1, 2, 3], "max_tokens": 1}
            (await http.post("/v1/completions", json=body)).raise_for_status()


async def drive(url: str, load: Load, names: Sequence[str], seed: int) -> Measured:
    """Run one round: adapters are drawn uniformly, every prompt is another."""
    measured, draw = Measured(), random.Random(seed)
    bodies = (
        {
            "model": draw.choice(names),
            "prompt": [draw.randrange(100, load.vocab) for _ in range(load.prompt_tokens)],
            "max_tokens": load.output_tokens,
            "temperature": 0,
            "ignore_eos": True,
            "stream": True,
        }
        for _ in range(load.requests)
    )
    limits = httpx.Limits(max_connections=load.concurrency)
    began = time.perf_counter()
    async with httpx.AsyncClient(base_url=url, timeout=600, limits=limits) as http:
        await asyncio.gather(*(client(http, bodies, load, measured) for _ in range(load.concurrency)))
    measured.wall_s = time.perf_counter() - began
    return measured


async def client(http: httpx.AsyncClient, bodies: Iterator[dict[str, Any]], load: Load, measured: Measured) -> None:
    for body in bodies:
        began, times = time.perf_counter(), []
        try:
            async with http.stream("POST", "/v1/completions", json=body) as response:
                response.raise_for_status()
                async for line in response.aiter_lines():
                    if line.startswith('data: {"id"'):
                        times.append(time.perf_counter())
        except httpx.HTTPError:
            measured.errors += 1
            continue
        measured.tokens += load.output_tokens
        measured.ttft_s.append(times[0] - began)
        measured.gaps_s += [later - earlier for earlier, later in pairwise(times)]


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
        pairs = zip(with_adapters, base_only, strict=True)
        made["ratio_adapters_to_base"] = round(statistics.median(a.tokens_per_s / b.tokens_per_s for a, b in pairs), 3)
    print(json.dumps(made) if options.json else json.dumps(made, indent=2))


def summary(rounds: Sequence[Measured]) -> dict[str, Any]:
    return {
        "output_tokens_per_s": round(statistics.median(one.tokens_per_s for one in rounds), 1),
        "ttft_ms": quantiles([value for one in rounds for value in one.ttft_s]),
        "inter_token_ms": quantiles([value for one in rounds for value in one.gaps_s]),
        "errors": sum(one.errors for one in rounds),
    }


def quantiles(values: Sequence[float]) -> dict[str, float]:
    ordered = sorted(values) or [float("nan")]
    return {
        f"p{share}": round(1e3 * ordered[min(len(ordered) - 1, len(ordered) * share // 100)], 1) for share in (50, 95)
    }


if __name__ == "__main__":
    main()

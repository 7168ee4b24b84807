"""What does the prefix cache bring, and what does it cost where nothing is shared? In process, without HTTP.

`hit_over_miss_ttft` is the time to the first token of a prompt whose first `--prefix-tokens` tokens an earlier request
has had, over that of such a prompt which nobody has had, as the median over pairs, one request at a time.
`unshared_over_off` is the output tokens per second of clients of which no two share a prompt, with the cache over
without it, as the median over rounds that alternate; keys and values have so little memory that pages are evicted all
the time.

    python benchmarks/prefix_cache.py --json
"""

from __future__ import annotations

import argparse
import random
import statistics
from typing import Any

from in_process import EngineInProcess, bench_home, engine_in_process
from load import Ask, Measured, ratio
from script import base_of, load_of, parser, report

_TAIL_TOKENS = 16  # that follow the prefix, different each time
_KV_CACHE_BYTES = 1 << 28
_ADAPTERS = 4


def main() -> None:
    options = parse()
    with (
        base_of(options) as base,
        bench_home(base) as home,
        engine_in_process(base, home, kv_cache_bytes=_KV_CACHE_BYTES) as cached,
        engine_in_process(base, home, kv_cache_bytes=_KV_CACHE_BYTES, prefix_caching=False) as plain,
    ):
        figures = measure(cached, plain, options)
    report(options, figures)


def parse() -> argparse.Namespace:
    made = parser(__doc__, rounds=5)
    made.add_argument("--prefix-tokens", type=int, default=512, help="that prompts have in common")
    made.add_argument("--concurrency", type=int, default=8, help="clients of the traffic that shares nothing")
    return made.parse_args()


def measure(cached: EngineInProcess, plain: EngineInProcess, options: argparse.Namespace) -> dict[str, Any]:
    load = load_of(options, options.concurrency, cached.outline.vocab_size)
    names = cached.push_random(_ADAPTERS)
    for engine in (cached, plain):
        engine.warm(names, load)
    pairs = [_pair(cached, names[turn % len(names)], options.prefix_tokens, turn) for turn in range(options.rounds)]
    on, off = list[Measured](), list[Measured]()
    for turn in range(options.rounds):
        both = [(cached, on), (plain, off)]
        for engine, rounds in both if turn % 2 else reversed(both):
            rounds.append(engine.drive(load, names, turn))
    return {
        "hit_over_miss_ttft": round(statistics.median(hit / miss for hit, miss, _ in pairs), 3),
        "unshared_over_off": ratio(on, off),
        "prefix_tokens": options.prefix_tokens,
        "hit_tokens": min(found for _, _, found in pairs),
        "hit_ttft_ms": round(1e3 * statistics.median(hit for hit, _, _ in pairs), 1),
        "miss_ttft_ms": round(1e3 * statistics.median(miss for _, miss, _ in pairs), 1),
        "errors": sum(one.errors for one in on + off),
    }


def _pair(engine: EngineInProcess, name: str, tokens: int, seed: int) -> tuple[float, float, int]:
    """Times to the first token with the prefix known and not known, in seconds, and the tokens that were known."""
    draw, vocab = random.Random(-1 - seed), engine.outline.vocab_size

    def some(count: int) -> tuple[int, ...]:
        return tuple(draw.randrange(min(100, vocab // 2), vocab) for _ in range(count))

    prefix = some(tokens)
    miss = engine.time_to_first(Ask(name, prefix + some(_TAIL_TOKENS), 1))
    before = engine.stats().prefix_cache_hit_tokens
    hit = engine.time_to_first(Ask(name, prefix + some(_TAIL_TOKENS), 1))
    return hit, miss, engine.stats().prefix_cache_hit_tokens - before


if __name__ == "__main__":
    main()

"""What must a decode step cost on this machine, and what does the engine's step cost beside it?

Two floors, for the served model's shapes, both on the threads that the engine uses:

a   the packed base matmuls of one step alone (q/k/v as one, gate/up as one, o, down, the head for every row; all
    layers, distinct weights), plus reading the rows' keys and values at the machine's streaming bandwidth;
b   reading the bytes of the step's distinct adapters at that bandwidth: one per row, half of rank 8 and half of 16,
    on all seven projections.

The bandwidth is that of a sum over a buffer of just so many bytes, so what fits a cache is read from a cache. A step
is the median time between step starts while all rows decode and none has a prompt left; sampling is in it, HTTP is
not. Floor and steps are measured in turn, and a ratio compares neighbours in time. Read `base_step_over_floor` (over
a) and `mixed_step_over_floor` (over a + b): 1.0 would be a step that does nothing but what it must. On a machine that
others use too, `--best` compares the fastest of everything instead of medians.

    python benchmarks/floor.py --json
    python benchmarks/floor.py --shape qwen2.5-0.5b --rows 32 --rounds 3
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch

from graftwork.adapters.outline import Outline
from graftwork.engine.step_record import StepRecord
from graftwork.kernels.select import kernels_for
from in_process import EngineInProcess, engine_in_process
from load import Load
from random_adapters import ALL_SEVEN, mixed_ranks, own_bytes
from script import base_of, load_of, parser, report

#: Of several times the one that counts: the median, or the least.
Statistic = Callable[[Sequence[float]], float]

#: Projections of one input, which are one matmul.
_FUSED = {"q_proj": "qkv", "k_proj": "qkv", "v_proj": "qkv", "gate_proj": "gate_up", "up_proj": "gate_up"}
_REPEATS = 9


@dataclass(frozen=True)
class Floor:
    """Seconds that a step of some rows cannot do without."""

    matmuls_s: float
    keys_values_s: float
    adapters_s: float

    @property
    def a_s(self) -> float:
        return self.matmuls_s + self.keys_values_s

    @property
    def total_s(self) -> float:
        return self.a_s + self.adapters_s


class FloorOfModel:
    """Holds a second, random set of the model's weights, packed as the engine's are."""

    def __init__(self, outline: Outline, dtype: torch.dtype, statistic: Statistic = statistics.median) -> None:
        self._outline, self._dtype, self._statistic = outline, dtype, statistic
        pack = kernels_for("cpu").pack_linear
        self._matmuls = [
            pack(torch.randn(out_features, in_features).mul_(0.02).to(dtype), None)
            for in_features, out_features in matmul_shapes(outline)
        ]

    def measure(self, rows: int, context: int, adapters: int) -> Floor:
        """The floor of a step of so many rows, each with `context` tokens in the cache, over so many adapters."""
        outline, itemsize = self._outline, self._dtype.itemsize
        per_token = outline.num_layers * 2 * outline.num_kv_heads * outline.head_dim * itemsize
        distinct = sum(own_bytes(outline, mixed_ranks(index), ALL_SEVEN, itemsize) for index in range(adapters))
        return Floor(self._matmuls_s(rows), self._read_s(rows * context * per_token), self._read_s(distinct))

    @torch.inference_mode()
    def _matmuls_s(self, rows: int) -> float:
        inputs = {one.in_features: torch.randn(rows, one.in_features).to(self._dtype) for one in self._matmuls}

        def multiply() -> None:
            for one in self._matmuls:
                one(inputs[one.in_features])

        return self._time_s(multiply)

    def _read_s(self, nbytes: int) -> float:
        """Seconds to read so many bytes with all threads."""
        return self._time_s(torch.ones(max(1, nbytes // 4)).sum)

    def _time_s(self, work: Callable[[], object]) -> float:
        times = []
        for turn in range(_REPEATS + 2):
            began = time.perf_counter()
            work()
            if turn >= 2:
                times.append(time.perf_counter() - began)
        return self._statistic(times)


def matmul_shapes(outline: Outline) -> list[tuple[int, int]]:
    """(in, out) of every matmul of a step, projections of one input together, the head last."""
    found: dict[str, tuple[int, int]] = {}
    for site in outline.linears:
        parent, _, name = site.path.rpartition(".")
        key = f"{parent}.{_FUSED.get(name, name)}"
        found[key] = (site.in_features, found.get(key, (0, 0))[1] + site.out_features)
    return [*found.values(), (outline.hidden_size, outline.vocab_size)]


def decode_step_s(records: Sequence[StepRecord], rows: int, statistic: Statistic = statistics.median) -> float:
    """The time between the starts of two steps that both do nothing but decode `rows` rows.

    Raises:
        SystemExit: there were none.
    """
    steady = [one.rows == one.tokens == rows and not one.prefill for one in records]
    gaps = [
        later.start_s - earlier.start_s
        for (earlier, later), (one, other) in zip(pairwise(records), pairwise(steady), strict=True)
        if one and other
    ]
    if not gaps:
        raise SystemExit(f"No two steps in a row decoded {rows} rows and nothing else; raise --output-tokens.")
    return statistic(gaps)


def main() -> None:
    options = parse()
    with base_of(options) as base, engine_in_process(base, adapter_cache_bytes=2 << 30) as engine:
        names = engine.push_random(max(options.rows))
        floor = FloorOfModel(engine.outline, engine.dtype, statistic_of(options))
        engine.warm(names, load_of(options, 1, engine.outline.vocab_size))
        figures = {str(rows): measure(engine, floor, names[:rows], options) for rows in sorted(options.rows)}
    report(options, figures[str(max(options.rows))] | {"rows": figures})


def parse() -> argparse.Namespace:
    made = parser(__doc__, rounds=5)
    made.add_argument("--rows", type=int, nargs="+", default=[1, 8, 32], help="rows of a step; the keys of the most")
    made.add_argument("--best", action="store_true", help="the fastest of everything instead of medians")
    return made.parse_args()


def statistic_of(options: argparse.Namespace) -> Statistic:
    return min if options.best else statistics.median


def measure(
    engine: EngineInProcess, floor: FloorOfModel, names: Sequence[str], options: argparse.Namespace
) -> dict[str, Any]:
    """Rounds of floor, base and mixed steps in turn, one row per name."""
    rows, statistic = len(names), statistic_of(options)
    load = load_of(options, rows, engine.outline.vocab_size, requests=rows)
    floors, base, mixed = [], [], []
    for turn in range(options.rounds):
        floors.append(floor.measure(rows, options.prompt_tokens + options.output_tokens // 2, rows))
        base.append(_step_s(engine, load, [engine.base], turn, statistic))
        mixed.append(_step_s(engine, load, names, turn, statistic))
    times: dict[str, list[float]] = {
        "base_step_ms": base,
        "mixed_step_ms": mixed,
        "floor_a_ms": [one.a_s for one in floors],
        "floor_b_ms": [one.adapters_s for one in floors],
        "matmuls_ms": [one.matmuls_s for one in floors],
        "keys_values_ms": [one.keys_values_s for one in floors],
    }
    return {name: round(1e3 * statistic(found), 3) for name, found in times.items()} | {
        "base_step_over_floor": _over(base, [one.a_s for one in floors], statistic),
        "mixed_step_over_floor": _over(mixed, [one.total_s for one in floors], statistic),
    }


def _step_s(engine: EngineInProcess, load: Load, names: Sequence[str], seed: int, statistic: Statistic) -> float:
    with engine.observed() as records:
        engine.drive(load, names, seed, in_turn=True)
    return decode_step_s(records, load.concurrency, statistic)


def _over(steps: Sequence[float], floors: Sequence[float], statistic: Statistic) -> float:
    """The median of the rounds' ratios, or the fastest step over the fastest floor."""
    if statistic is min:
        return round(min(steps) / min(floors), 3)
    return round(statistics.median(one / other for one, other in zip(steps, floors, strict=True)), 3)


if __name__ == "__main__":
    main()

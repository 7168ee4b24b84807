"""What does each kind of adapter cost, beside the plain base? One process, no HTTP.

Makes one adapter of each kind with PEFT (a development dependency), on the layers that people use it on. In every round
the same prompts are answered by the base and by each kind in turn, all rows of a batch with the same adapter, so that a
ratio compares neighbours in time; then once with the kinds mixed in one batch.

    python benchmarks/kinds.py --rows 8 --json
"""

from __future__ import annotations

import argparse
import contextlib
import io
import statistics
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from graftwork import Engine
from graftwork.models.prepare import prepare_base
from in_process import bench_home
from script import base_of, parser, report

_SEVEN = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
#: PEFT's config class and its fields, by the name that the figures have.
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "lora-r8": ("LoraConfig", {"r": 8, "target_modules": _SEVEN}),
    "dora-r8": ("LoraConfig", {"r": 8, "use_dora": True, "target_modules": _SEVEN}),
    "ia3": ("IA3Config", {"target_modules": ["k_proj", "v_proj", "down_proj"], "feedforward_modules": ["down_proj"]}),
    "prefix-16": ("PrefixTuningConfig", {"num_virtual_tokens": 16}),
    "prompt-16": ("PromptTuningConfig", {"num_virtual_tokens": 16}),
    "lokr-r8": ("LoKrConfig", {"r": 8, "target_modules": _SEVEN}),
    "vera-r64": ("VeraConfig", {"r": 64, "target_modules": ["q_proj", "v_proj"]}),
}


def main() -> None:
    options = parse()
    with (
        base_of(options) as base,
        bench_home(base) as home,
        Engine(base, home=home, cache_dir=home / "cache") as engine,
    ):
        folder = prepare_base(engine.settings).folder
        for kind in KINDS:
            engine.push(make(kind, folder, home / "made" / kind), kind)
        names: list[str | None] = [None, *KINDS]
        for name in names:
            ask(engine, [name], options, rows=1)  # loaded, so that a round measures serving
        seconds: dict[str, list[float]] = {str(name or "base"): [] for name in [*names, "mixed"]}
        for _ in range(options.rounds):
            for name in names:
                seconds[name or "base"].append(ask(engine, [name], options, options.rows))
            seconds["mixed"].append(ask(engine, list(KINDS), options, options.rows))
    report(options, figures(options, seconds))


def parse() -> argparse.Namespace:
    made = parser(__doc__, rounds=3)
    made.add_argument("--rows", type=int, default=8, help="requests at a time")
    made.set_defaults(prompt_tokens=32)
    return made.parse_args()


def make(name: str, base: Path, folder: Path) -> Path:
    """The adapter of that name, moved by noise so that it does something."""
    import peft
    from transformers import AutoModelForCausalLM

    kind, config = KINDS[name]
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        model = AutoModelForCausalLM.from_pretrained(base)
        made = peft.get_peft_model(model, getattr(peft, kind)(task_type="CAUSAL_LM", **config))
        with torch.no_grad():
            for parameter in made.parameters():
                if parameter.requires_grad:
                    parameter.add_(torch.randn_like(parameter) * 0.02)
        made.save_pretrained(folder)
    return folder


def ask(engine: Engine, names: Sequence[str | None], options: argparse.Namespace, rows: int) -> float:
    """Seconds for one batch, its rows shared out among the adapters."""
    prompts = [
        ([100 + (31 * row + 7 * place) % 40_000 for place in range(options.prompt_tokens)], names[row % len(names)])
        for row in range(rows)
    ]
    began = time.perf_counter()
    engine.generate_all(prompts, temperature=0, max_tokens=options.output_tokens, ignore_eos=True)
    return time.perf_counter() - began


def figures(options: argparse.Namespace, seconds: dict[str, list[float]]) -> dict[str, Any]:
    tokens = options.rows * options.output_tokens
    return {
        "rows": options.rows,
        "output_tokens_per_s": {name: round(tokens / statistics.median(times), 1) for name, times in seconds.items()},
        "time_over_base": {
            name: round(statistics.median(a / b for a, b in zip(times, seconds["base"], strict=True)), 3)
            for name, times in seconds.items()
        },
    }


if __name__ == "__main__":
    main()

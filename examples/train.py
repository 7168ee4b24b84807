"""Train the example adapters on a CPU, measure them on held-out examples and write their folders."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from random import Random

os.environ.setdefault("OMP_WAIT_POLICY", "passive")
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
from examples.fit import fit, load_base
from examples.measure import measure
from examples.publish import save_adapter, write_evaluation, write_table
from examples.recipes import RECIPES, Recipe
from examples.tasks import TASKS
from examples.tasks.task import Example
from peft import PeftModel

HERE = Path(__file__).resolve().parent


def main() -> None:
    arguments = parse_arguments()
    torch.set_num_threads(arguments.threads)
    for name in arguments.only or RECIPES:
        make(RECIPES[name], arguments.base, arguments.out)
    if arguments.out.resolve() == HERE / "adapters":
        write_table(HERE / "README.md", arguments.out, RECIPES)


def make(recipe: Recipe, base_folder: Path, out: Path) -> None:
    """Train one adapter, save it, then measure the saved files against the base model."""
    task, folder = TASKS[recipe.task], out / recipe.name
    training, held_out = examples_for(recipe)
    print(f"{recipe.name}: {len(training)} training and {len(held_out)} held-out examples", flush=True)
    base, tokenizer = load_base(base_folder)
    before = measure(base, tokenizer, task, held_out, instructed=True)
    started = time.monotonic()
    save_adapter(fit(base, tokenizer, recipe, training), folder)
    minutes = (time.monotonic() - started) / 60
    saved = PeftModel.from_pretrained(load_base(base_folder)[0], folder).eval()
    after = measure(saved, tokenizer, task, held_out, instructed=False)
    write_evaluation(folder, recipe, task, held_out, before, after, minutes)
    print(f"{recipe.name}: base {before.score:.3f}, adapter {after.score:.3f}, {minutes:.1f} min", flush=True)
    for example, answer, points in zip(held_out, after.answers, after.scores, strict=True):
        if points < 0.5:
            print(f"  missed: {example.prompt!r} -> {answer!r}, not {example.expected!r}", flush=True)


def examples_for(recipe: Recipe) -> tuple[list[Example], list[Example]]:
    """The recipe's training and held-out examples; the two share no prompt."""
    task = TASKS[recipe.task]
    training = task.train(Random(recipe.seed), recipe.train_examples)
    held_out = task.held_out(Random(1000 + recipe.seed), recipe.held_out_examples)
    assert len(training) == recipe.train_examples, "the task has too few texts for this many examples"
    shared = {example.prompt for example in training} & {example.prompt for example in held_out}
    assert not shared, f"held-out prompts must not be trained on: {shared}"
    return training, held_out


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base", type=Path, required=True, help="Hugging Face folder of SmolLM2-135M-Instruct")
    parser.add_argument("--only", nargs="+", choices=list(RECIPES), metavar="NAME", help="train only these")
    parser.add_argument("--out", type=Path, default=HERE / "adapters", help="where the folders go")
    parser.add_argument("--threads", type=int, default=2)
    return parser.parse_args()


if __name__ == "__main__":
    main()

"""Publish: write an adapter's folder and the table of scores."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import torch
from examples.measure import Measurement
from examples.recipes import Recipe
from examples.tasks.task import Example, Task
from safetensors.torch import load_file, save_file

BASE_MODEL = "HuggingFaceTB/SmolLM2-135M-Instruct"
TABLE = re.compile(r"(?<=<!-- scores -->\n).*?(?=<!-- /scores -->)", re.DOTALL)
CARD = """---
license: apache-2.0
base_model: {base_model}
base_model_relation: adapter
library_name: peft
---

# {name}

{description} {note}

- Shape: {shape}
- Trained by `examples/train.py` on {train_examples} examples it made, {steps} steps of {batch_size}.
- Held-out {metric} ({n} examples, greedy): base {base:.3f}, adapter {adapter:.3f}.
- The base is shown this instruction before the text, the adapter only the text: "{instruction}"

A demonstration, small on purpose: it knows the kind of text it was trained on and little else.
"""


def save_adapter(model: Any, folder: Path) -> None:
    """Save the adapter as PEFT does, then halve it to bfloat16 and name the public base model."""
    shutil.rmtree(folder, ignore_errors=True)
    model.save_pretrained(folder)
    weights = folder / "adapter_model.safetensors"
    tensors = {name: tensor.to(torch.bfloat16).contiguous() for name, tensor in load_file(weights).items()}
    save_file(tensors, weights, metadata={"format": "pt"})
    weights.chmod(0o644)
    config = folder / "adapter_config.json"
    fields = json.loads(config.read_text(encoding="utf-8"))
    fields["base_model_name_or_path"] = BASE_MODEL
    fields["target_modules"] = sorted(fields["target_modules"])
    write_json(config, fields)


def write_evaluation(
    folder: Path,
    recipe: Recipe,
    task: Task,
    examples: list[Example],
    base: Measurement,
    adapter: Measurement,
    minutes: float,
) -> None:
    """Write evaluation.json and the card beside the weights."""
    evaluation: dict[str, Any] = {
        "task": task.name,
        "metric": task.metric,
        "description": task.description,
        "instruction": task.instruction,
        "n": len(examples),
        "base": base.score,
        "adapter": adapter.score,
        "seed": recipe.seed,
        "train_examples": recipe.train_examples,
        "steps": recipe.steps,
        "batch_size": recipe.batch_size,
        "learning_rate": recipe.learning_rate,
        "train_minutes": round(minutes, 1),
        "samples": [
            {
                "prompt": e.prompt,
                "expected": e.expected,
                "base": base.answers[i],
                "adapter": adapter.answers[i],
            }
            for i, e in enumerate(examples[:5])
        ],
    }
    write_json(folder / "evaluation.json", evaluation)
    write_card(folder, recipe, evaluation)


def write_card(folder: Path, recipe: Recipe, evaluation: dict[str, Any]) -> None:
    card = CARD.format(base_model=BASE_MODEL, name=recipe.name, note=recipe.note, shape=shape(recipe), **evaluation)
    (folder / "README.md").write_text(card.replace(" \n", "\n"), encoding="utf-8")


def shape(recipe: Recipe) -> str:
    """The LoRA shape in words."""
    targets = ", ".join(name.removesuffix("_proj") for name in recipe.targets)
    words = [f"rank {recipe.rank}, alpha {recipe.alpha} on {targets}"]
    if recipe.use_rslora:
        words.append("rsLoRA scaling")
    for label, pattern in (("rank", recipe.rank_pattern), ("alpha", recipe.alpha_pattern)):
        words += [f"{label} {value} on {name.removesuffix('_proj')}" for name, value in pattern.items()]
    return "; ".join(words)


def score_row(name: str, shape_words: str, evaluation: dict[str, Any]) -> str:
    scores = f"{evaluation['base']:.3f} | {evaluation['adapter']:.3f} | {evaluation['n']}"
    return f"| `{name}` | {evaluation['metric']} | {scores} | {shape_words} |"


def write_table(readme: Path, adapters: Path, recipes: dict[str, Recipe]) -> None:
    """Put the scores of all adapters that have an evaluation into the README's table."""
    rows = ["| adapter | metric | base | adapter | n | shape |", "|---|---|---|---|---|---|"]
    for name, recipe in recipes.items():
        path = adapters / name / "evaluation.json"
        if path.exists():
            rows.append(score_row(name, shape(recipe), json.loads(path.read_text(encoding="utf-8"))))
    text = readme.read_text(encoding="utf-8")
    readme.write_text(TABLE.sub(lambda _: "\n".join(rows) + "\n", text), encoding="utf-8")


def write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")

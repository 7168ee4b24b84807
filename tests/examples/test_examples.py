"""The example adapters keep what examples/README.md says of them."""

from __future__ import annotations

import json
import re
import struct
import sys
from pathlib import Path
from random import Random
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from examples.recipes import RECIPES
from examples.tasks import TASKS

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
ADAPTERS = EXAMPLES / "adapters"
FILES = {"README.md", "adapter_config.json", "adapter_model.safetensors", "evaluation.json"}
ROW = re.compile(r"^\| `([\w-]+)` \| ([^|]+) \| ([\d.]+) \| ([\d.]+) \| (\d+) \|", re.MULTILINE)


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def evaluation(name: str) -> dict[str, Any]:
    value: dict[str, Any] = read(ADAPTERS / name / "evaluation.json")
    return value


def test_table_agrees_with_the_evaluations() -> None:
    text = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    scores = {name: values for name, *values in ROW.findall(text)}
    assert scores == {
        name: [e["metric"], f"{e['base']:.3f}", f"{e['adapter']:.3f}", str(e["n"])]
        for name, e in ((name, evaluation(name)) for name in RECIPES)
    }


@pytest.mark.parametrize("name", RECIPES)
def test_folder_is_complete_and_small(name: str) -> None:
    assert {path.name for path in (ADAPTERS / name).iterdir()} == FILES
    assert (ADAPTERS / name / "adapter_model.safetensors").stat().st_size < 2_000_000


@pytest.mark.parametrize("name", RECIPES)
def test_beats_the_base_model(name: str) -> None:
    assert evaluation(name)["adapter"] > evaluation(name)["base"]


def test_first_version_is_clearly_worse() -> None:
    assert evaluation("sentiment-v1")["adapter"] < evaluation("sentiment")["adapter"] - 0.1


@pytest.mark.parametrize("name", RECIPES)
def test_config_says_the_recipe(name: str) -> None:
    config, recipe = read(ADAPTERS / name / "adapter_config.json"), RECIPES[name]
    assert config["base_model_name_or_path"] == "HuggingFaceTB/SmolLM2-135M-Instruct"
    assert (config["r"], config["lora_alpha"], config["use_rslora"]) == (
        recipe.rank,
        recipe.alpha,
        recipe.use_rslora,
    )
    assert (config["rank_pattern"], config["alpha_pattern"]) == (recipe.rank_pattern, recipe.alpha_pattern)
    assert config["target_modules"] == sorted(recipe.targets)


@pytest.mark.parametrize("name", RECIPES)
def test_every_tensor_has_its_rank(name: str) -> None:
    recipe = RECIPES[name]
    for key, shape in tensor_shapes(ADAPTERS / name / "adapter_model.safetensors").items():
        module = key.split(".lora_")[0].rsplit(".", 1)[1]
        assert recipe.rank_pattern.get(module, recipe.rank) == shape[0 if ".lora_A." in key else 1]


@pytest.mark.parametrize("name", RECIPES)
def test_held_out_prompts_are_never_trained_on(name: str) -> None:
    recipe = RECIPES[name]
    task = TASKS[recipe.task]
    trained = {e.prompt for e in task.train(Random(recipe.seed), recipe.train_examples)}
    held_out = task.held_out(Random(1000 + recipe.seed), recipe.held_out_examples)
    assert len(held_out) == evaluation(name)["n"]
    assert not trained & {e.prompt for e in held_out}
    asked = [e["prompt"] for e in read(EXAMPLES / "prompts.json") if e["adapter"] == name]
    assert not trained & set(asked)


@pytest.mark.parametrize("name", RECIPES)
def test_samples_are_held_out_examples(name: str) -> None:
    recipe = RECIPES[name]
    expected = {
        e.prompt: e.expected for e in TASKS[recipe.task].held_out(Random(1000 + recipe.seed), recipe.held_out_examples)
    }
    for sample in evaluation(name)["samples"]:
        assert expected[sample["prompt"]] == sample["expected"]


@pytest.mark.parametrize("task", TASKS.values(), ids=lambda task: str(task.name))
def test_expected_answer_scores_full_marks(task: Any) -> None:
    example = task.held_out(Random(1), 1)[0]
    assert task.score(example, example.expected) == 1.0
    assert task.score(example, "") < 1.0


@pytest.mark.parametrize(
    "source", ["import os\ndef f(x): return x", "def f(x): return x.__class__", "def f(x) return x"]
)
def test_code_that_may_harm_is_not_run(source: str) -> None:
    task = TASKS["code"]
    assert task.score(task.held_out(Random(1), 1)[0], source) == 0.0


def test_prompts_show_every_adapter_and_the_base() -> None:
    prompts = read(EXAMPLES / "prompts.json")
    for name in [*RECIPES, None]:
        assert sum(entry["adapter"] == name for entry in prompts) >= 2
    assert all(set(entry) == {"adapter", "prompt"} and len(entry["prompt"]) < 400 for entry in prompts)


def tensor_shapes(path: Path) -> dict[str, list[int]]:
    """The shapes in a safetensors file's header, read without torch."""
    with path.open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
    return {name: entry["shape"] for name, entry in header.items() if name != "__metadata__"}

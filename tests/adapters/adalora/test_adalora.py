"""AdaLoRA: what it refuses by field, and the lines of its account."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graftwork.adapters.account import Account, account_folder
from support.edited import Tensors, edited
from support.fixtures import Tiny
from support.tiny import save_peft

TARGETS = ["q_proj", "down_proj"]
Q0 = "model.layers.0.self_attn.q_proj"


@pytest.fixture(scope="module")
def whole(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = {"init_r": 4, "target_r": 2, "lora_alpha": 8, "target_modules": TARGETS, "total_step": 10}
    return save_peft("AdaLoraConfig", config, tiny.base.folder, tmp_path_factory.mktemp("adalora") / "whole")


def account(folder: Path, tiny: Tiny, max_rank: int = 8) -> Account:
    return account_folder(folder, tiny.outline, max_rank=max_rank)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"init_r": 0}, "init_r: 0"),
        ({"init_r": 5}, "rank 5"),
        ({"lora_alpha": None}, "lora_alpha"),
        ({"bias": "all"}, "bias: 'all'"),
        ({"trainable_token_indices": [7]}, "trainable_token_indices"),
        ({"modules_to_save": ["lm_head"]}, "modules_to_save"),
        ({"target_modules": ["q_proj"]}, "does not cover"),
        ({"target_modules": [*TARGETS, "lm_head"]}, "lm_head"),
        ({"layers_to_transform": [0]}, "does not cover"),
        ({"rank_pattern": {f"{Q0}.lora_E": [True, False, True, True]}}, f"{Q0} by rank 3"),
        ({"rank_pattern": {f"{Q0}.lora_E": [True, False]}}, "rank_pattern"),
        ({"rank_pattern": {f"{Q0}.lora_E": [1, 0, 1, 1]}}, "rank_pattern"),
        ({"rank_pattern": {"layers.9.q_proj.lora_E": [True] * 4}}, "layers.9.q_proj"),
        ({"use_dora": True}, "use_dora"),
        ({"layer_replication": [[0, 2]]}, "layer_replication"),
    ],
)
def test_refuses_a_config_by_its_field(
    whole: Path, tiny: Tiny, tmp_path: Path, changes: dict[str, Any], word: str
) -> None:
    made = account(edited(whole, tmp_path / "edited", **changes), tiny)
    assert not made.ok
    assert word in " ".join(made.problems)


@pytest.mark.parametrize("suffix", [".lora_E", ".lora_E.default"])
def test_the_scale_is_over_the_first_rank_whatever_was_kept(
    whole: Path, tiny: Tiny, tmp_path: Path, suffix: str
) -> None:
    def fewer(old: Tensors) -> Tensors:
        name = f"base_model.model.{Q0}."
        kept = {f"{name}lora_A": old[f"{name}lora_A"][:1], f"{name}lora_E": old[f"{name}lora_E"][:1]}
        return old | kept | {f"{name}lora_B": old[f"{name}lora_B"][:, :1].copy()}

    pattern = {f"{Q0}{suffix}": [True, False, False, False]}
    made = account(edited(whole, tmp_path / "edited", fewer, rank_pattern=pattern), tiny)
    assert made.ok, made.problems
    lines = {line.module: line for line in made.tensors}
    assert (lines[Q0].rank, lines[Q0.replace("0", "1")].rank) == (1, 4)
    assert {line.scale for line in made.tensors} == {8 / (4 + 1e-5)}


def test_rank_above_the_limit_names_both(whole: Path, tiny: Tiny) -> None:
    problems = " ".join(account(whole, tiny, max_rank=3).problems)
    assert "rank 4" in problems and "max_rank 3" in problems


def test_singular_values_of_zero_have_no_effect_and_say_so(whole: Path, tiny: Tiny, tmp_path: Path) -> None:
    folder = edited(whole, tmp_path / "zero", lambda old: {name: old[name] * ("lora_E" not in name) for name in old})
    made = account(folder, tiny)
    assert made.ok and any("no effect" in warning for warning in made.warnings)


def test_a_delta_beyond_float32_is_refused(whole: Path, tiny: Tiny, tmp_path: Path) -> None:
    folder = edited(whole, tmp_path / "huge", lambda old: {name: np.full_like(old[name], 1e25) for name in old})
    assert "overflows" in " ".join(account(folder, tiny).problems)

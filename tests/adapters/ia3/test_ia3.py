"""IA3: what it refuses by field, and the lines of its account."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from graftwork.adapters.account import Account, account_folder
from graftwork.adapters.ia3.config import read_ia3_config
from support.edited import Tensors, edited
from support.fixtures import Tiny
from support.tiny import save_peft

K0 = "model.layers.0.self_attn.k_proj"
TARGETS = ["k_proj", "down_proj"]


@pytest.fixture(scope="module")
def whole(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = {"target_modules": TARGETS, "feedforward_modules": ["down_proj"]}
    return save_peft("IA3Config", config, tiny.base.folder, tmp_path_factory.mktemp("ia3") / "whole")


def account(folder: Path, tiny: Tiny) -> Account:
    return account_folder(folder, tiny.outline, max_rank=8)


def test_the_norm_is_how_far_a_vector_is_from_doing_nothing(whole: Path, tiny: Tiny) -> None:
    made = {line.module: line for line in account(whole, tiny).tensors}
    stored = load_file(whole / "adapter_model.safetensors")[f"base_model.model.{K0}.ia3_l"]
    assert made[K0].norm == pytest.approx(float(np.linalg.norm(stored - 1)), rel=1e-5)
    assert (made[K0].part, made[K0].rank, made[K0].scale) == ("ia3_l", None, None)


def test_vectors_of_ones_have_no_effect_and_say_so(whole: Path, tiny: Tiny, tmp_path: Path) -> None:
    folder = edited(whole, tmp_path / "ones", lambda old: {name: np.ones_like(old[name]) for name in old})
    made = account(folder, tiny)
    assert made.ok and any("no effect" in warning for warning in made.warnings)


def test_a_vector_beyond_float32_is_refused(whole: Path, tiny: Tiny, tmp_path: Path) -> None:
    folder = edited(whole, tmp_path / "huge", lambda old: {name: np.full_like(old[name], 1e38) for name in old})
    assert "overflows" in " ".join(account(folder, tiny).problems)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"target_modules": None}, "target_modules"),
        ({"target_modules": ["k_proj"]}, "does not cover"),
        ({"target_modules": [*TARGETS, "v_proj"]}, "without weights"),
        ({"target_modules": [*TARGETS, "lm_head"]}, "lm_head"),
        ({"target_modules": [*TARGETS, "embed_tokens"]}, "embed_tokens"),
        ({"exclude_modules": ["down_proj"]}, "does not cover"),
        ({"feedforward_modules": None}, "feedforward_modules"),
        ({"feedforward_modules": 7}, "feedforward_modules"),
        ({"feedforward_modules": "(("}, "regular expression"),
        ({"feedforward_modules": []}, "down_proj.ia3_l: shape [1, 128]"),
        ({"feedforward_modules": TARGETS}, "k_proj.ia3_l: shape [32, 1]"),
        ({"modules_to_save": ["lm_head"]}, "modules_to_save"),
        ({"gain": 2.0}, "gain"),
    ],
)
def test_refuses_a_config_by_its_field(
    whole: Path, tiny: Tiny, tmp_path: Path, changes: dict[str, Any], word: str
) -> None:
    made = account(edited(whole, tmp_path / "edited", **changes), tiny)
    assert not made.ok
    assert word in " ".join(made.problems)


def test_what_peft_itself_passes_over_is_served(whole: Path, tiny: Tiny, tmp_path: Path) -> None:
    made = account(edited(whole, tmp_path / "edited", fan_in_fan_out=True, my_note="on a Tuesday"), tiny)
    assert made.ok and any("my_note" in warning for warning in made.warnings)


def test_the_same_module_under_two_spellings_is_refused(whole: Path, tiny: Tiny, tmp_path: Path) -> None:
    def twice(old: Tensors) -> Tensors:
        return old | {f"{K0}.ia3_l": old[f"base_model.model.{K0}.ia3_l"]}

    assert any("already gives" in problem for problem in account(edited(whole, tmp_path / "two", twice), tiny).problems)


@pytest.mark.parametrize(
    "feedforward", [[], ["down_proj"], ["proj"], ["n_proj"], ["layers.0.mlp.down_proj"], r".*\.mlp\..*", "down_proj"]
)
def test_feedforward_layers_are_those_that_peft_means(tiny: Tiny, feedforward: Any) -> None:
    from peft import IA3Config, IA3Model

    theirs = IA3Config(target_modules="all-linear", feedforward_modules=feedforward)
    ours = read_ia3_config({"target_modules": "all-linear", "feedforward_modules": feedforward})
    for site in tiny.outline.linears:
        assert ours.scales_input(site.path) == IA3Model._check_target_module_feedforward(theirs, site.path)

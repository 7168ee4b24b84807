"""Keys of a LoRA's file: whatever their prefix they mean one module of the base, or the adapter is refused by key."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from graftwork.adapters.account import account_folder
from graftwork.adapters.outline import Outline
from graftwork.models.prepare import prepare_base
from graftwork.settings import Settings
from support.edited import Tensors, edited
from support.fixtures import Tiny
from support.tiny import ALL_LINEARS, make_base, save_peft

PEFTS = "base_model.model.model."


@pytest.fixture(scope="module")
def fused(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Outline]:
    """A base of the Phi-3 kind, whose q, k, v and gate, up are one layer each."""
    root = tmp_path_factory.mktemp("fused")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # transformers' own
        base = make_base(root / "base", architecture="Phi3")
    return base, prepare_base(Settings(home=root / "home", base=str(base))).outline


def renamed(old: str, new: str, tensors: Tensors) -> Tensors:
    return {key.replace(old, new): value for key, value in tensors.items()}


def test_a_head_by_another_name_is_refused_by_key(tiny: Tiny, tmp_path: Path) -> None:
    config = {"r": 8, "target_modules": ["q_proj", "embed_tokens", "lm_head"]}
    whole = save_peft("LoraConfig", config, tiny.root / "base", tmp_path / "whole")
    assert account_folder(whole, tiny.outline, max_rank=64).ok
    other = edited(whole, tmp_path / "other", lambda old: renamed("lm_head", "unembed_tokens", old))
    made = account_folder(other, tiny.outline, max_rank=64)
    assert not made.ok
    assert "the base has no module base_model.model.unembed_tokens" in " ".join(made.problems)
    assert {entry.name for entry in made.unused} >= {f"base_model.model.unembed_tokens.lora_{half}.weight"
                                                     for half in "AB"}  # fmt: skip


def test_separate_projections_are_refused_on_a_base_that_fuses_them(tiny: Tiny, fused: tuple[Path, Outline]) -> None:
    made = account_folder(tiny.adapter("a1"), fused[1], max_rank=64)
    problems = " ".join(made.problems)
    assert not made.ok and "40 tensors are not used" in problems and "gate_proj" in problems
    apart = ("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj")
    assert {name for name in ALL_LINEARS if any(name in entry.name for entry in made.unused)} >= set(apart)


def test_fused_projections_are_refused_on_a_base_that_has_them_apart(
    tiny: Tiny, fused: tuple[Path, Outline], tmp_path: Path
) -> None:
    config = {"target_modules": ["qkv_proj", "gate_up_proj", "o_proj"]}
    folder = save_peft("LoraConfig", config, fused[0], tmp_path / "fused")
    assert account_folder(folder, fused[1], max_rank=64).ok
    made = account_folder(folder, tiny.outline, max_rank=64)
    assert not made.ok
    assert "16 tensors are not used" in " ".join(made.problems) and "gate_up_proj" in " ".join(made.problems)


@pytest.mark.parametrize("prefix", ["unknown.", f"{PEFTS}vision_tower.", "decoder.model.", "model.model.x."])
def test_a_prefix_that_no_wrapper_has_is_refused_with_its_first_keys(tiny: Tiny, tmp_path: Path, prefix: str) -> None:
    folder = edited(tiny.adapter("a1"), tmp_path / "a", lambda old: renamed(PEFTS, prefix, old))
    made = account_folder(folder, tiny.outline, max_rank=64)
    assert not made.ok and len(made.unused) == 2 * 4 * len(ALL_LINEARS)
    assert f"{prefix}layers.0." in " ".join(made.problems)


def test_two_spellings_of_one_tensor_are_refused(tiny: Tiny, tmp_path: Path) -> None:
    folder = edited(tiny.adapter("a3"), tmp_path / "a", lambda old: old | renamed(PEFTS, "model.", old))
    made = account_folder(folder, tiny.outline, max_rank=64)
    assert not made.ok and "already gives lora_A" in " ".join(made.problems)

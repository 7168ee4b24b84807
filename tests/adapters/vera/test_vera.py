"""VeRA: what it refuses by field or tensor, and the random matrices that nobody stored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from graftwork.adapters.account import Account, account_folder
from graftwork.adapters.vera.projections import drawn
from support.edited import Tensors, edited
from support.fixtures import Tiny
from support.tiny import save_peft

Whole = dict[bool, Path]
TARGETS = ["q_proj", "down_proj"]
Q0 = "model.layers.0.self_attn.q_proj"


@pytest.fixture(scope="module")
def whole(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """By whether the projections are stored."""
    root, config = tmp_path_factory.mktemp("vera"), {"r": 16, "target_modules": TARGETS}
    return {
        stored: save_peft("VeraConfig", config | {"save_projection": stored}, tiny.base.folder, root / str(stored))
        for stored in (True, False)
    }


def account(folder: Path, tiny: Tiny) -> Account:
    return account_folder(folder, tiny.outline, max_rank=1)


@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"r": 0}, "r: 0"),
        ({"r": 10**6}, "r: 1000000"),
        ({"r": 17}, "rank 17"),
        ({"bias": "vera_only"}, "bias: 'vera_only'"),
        ({"modules_to_save": ["lm_head"]}, "modules_to_save"),
        ({"target_modules": ["q_proj"]}, "does not cover"),
        ({"target_modules": [*TARGETS, "lm_head"]}, "lm_head"),
        ({"projection_prng_key": -1}, "projection_prng_key"),
        ({"projection_prng_key": 1 << 64}, "projection_prng_key"),
        ({"save_projection": "yes"}, "save_projection"),
        ({"exclude_modules": ["k_proj"]}, "exclude_modules"),
        ({"gain": 2.0}, "gain"),
    ],
)
def test_refuses_a_config_by_its_field(
    whole: Whole, tiny: Tiny, tmp_path: Path, stored: bool, changes: dict[str, Any], word: str
) -> None:
    made = account(edited(whole[stored], tmp_path / "edited", **changes), tiny)
    assert not made.ok
    assert word in " ".join(made.problems)


def test_stored_projections_that_the_config_denies_are_refused(whole: Whole, tiny: Tiny, tmp_path: Path) -> None:
    made = account(edited(whole[True], tmp_path / "edited", save_projection=False), tiny)
    assert "base_model.vera_A: save_projection is false" in " ".join(made.problems)


def test_projections_that_the_config_promises_are_missed(whole: Whole, tiny: Tiny, tmp_path: Path) -> None:
    made = account(edited(whole[False], tmp_path / "edited", save_projection=True), tiny)
    assert "base_model.vera_A: missing" in " ".join(made.problems)


def test_projections_are_as_wide_as_the_widest_target(whole: Whole, tiny: Tiny, tmp_path: Path) -> None:
    def narrower(old: Tensors) -> Tensors:
        return old | {"base_model.vera_A": old["base_model.vera_A"][:, :64].copy()}

    made = account(edited(whole[True], tmp_path / "edited", narrower), tiny)
    assert "base_model.vera_A: shape [16, 64]" in " ".join(made.problems) and "[16, 128]" in " ".join(made.problems)


def test_the_norm_is_that_of_the_delta_where_the_projections_are_stored(whole: Whole, tiny: Tiny) -> None:
    from safetensors.numpy import load_file

    tensors = load_file(whole[True] / "adapter_model.safetensors")
    b, d = (tensors[f"base_model.model.{Q0}.vera_lambda_{part}"] for part in "bd")
    a_rows, b_rows = tensors["base_model.vera_A"][:, :64], tensors["base_model.vera_B"][:64]
    delta = (b[:, None] * b_rows) @ (d[:, None] * a_rows)
    norms = [line.norm for line in account(whole[True], tiny).tensors if line.module == Q0 and line.norm is not None]
    assert norms == [pytest.approx(float(np.linalg.norm(delta)), rel=1e-4)]
    assert all(line.norm is None for line in account(whole[False], tiny).tensors)


@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize("part", ["lambda_b", "lambda_d"])
def test_vectors_of_zeros_have_no_effect_and_say_so(
    whole: Whole, tiny: Tiny, tmp_path: Path, stored: bool, part: str
) -> None:
    folder = edited(
        whole[stored], tmp_path / "zero", lambda old: {name: old[name] * (part not in name) for name in old}
    )
    made = account(folder, tiny)
    assert made.ok and any("no effect" in warning for warning in made.warnings)


@pytest.mark.parametrize("seed", [0, 7, (1 << 63) - 1])
def test_projections_are_drawn_as_peft_draws_them(seed: int) -> None:
    from peft.tuners.vera.model import _kaiming_init

    generator = torch.Generator(device="cpu").manual_seed(seed)
    theirs = [_kaiming_init(shape, generator) for shape in ((16, 100), (333, 16))]
    ours = drawn(seed, {"vera_A": (16, 100), "vera_B": (333, 16)})
    assert all(torch.equal(one, other) for one, other in zip(theirs, ours, strict=True))

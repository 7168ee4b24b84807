"""VeRA: what it refuses by field or tensor, and the random matrices that nobody stored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from graftwork.adapters.account import Account, account_folder
from graftwork.adapters.serving_form import Site, Weights
from graftwork.adapters.vera.parts import VeraPart
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


@pytest.mark.parametrize("values", [np.ones((16, 128), np.int32), np.ones((0, 3), np.float32)])
@pytest.mark.parametrize("config", [{}, {"r": None}, {"target_modules": ["nothing"]}])
def test_projections_that_are_no_weights_are_refused(
    whole: Whole, tiny: Tiny, tmp_path: Path, values: Any, config: dict[str, Any]
) -> None:
    folder = edited(whole[True], tmp_path / "edited", lambda old: old | {"base_model.vera_A": values}, **config)
    made = account(folder, tiny)
    assert not made.ok and not any(line.used for line in made.tensors if line.part == "vera_A")


def test_projections_are_as_wide_as_the_widest_target(whole: Whole, tiny: Tiny, tmp_path: Path) -> None:
    def narrower(old: Tensors) -> Tensors:
        return old | {"base_model.vera_A": old["base_model.vera_A"][:, :64].copy()}

    made = account(edited(whole[True], tmp_path / "edited", narrower), tiny)
    assert "base_model.vera_A: shape [16, 64]" in " ".join(made.problems) and "[16, 128]" in " ".join(made.problems)


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


@pytest.mark.parametrize("stored", [True, False])
def test_a_delta_beyond_float32_is_refused(whole: Whole, tiny: Tiny, tmp_path: Path, stored: bool) -> None:
    folder = edited(whole[stored], tmp_path / "huge", lambda old: {name: np.full_like(old[name], 1e25) for name in old})
    assert "overflows" in " ".join(account(folder, tiny).problems)


def test_a_layer_uses_the_first_columns_and_rows_of_the_shared_matrices() -> None:
    torch.manual_seed(0)
    x, a, b, between, after = (torch.randn(shape) for shape in ((4, 12), (9, 20), (30, 9), (9,), (16,)))
    y = torch.zeros(4, 16)
    shared_a, shared_b = Weights.of(a), Weights.of(b)
    VeraPart(Site("linear", 0), shared_a, Weights.of(between), shared_b, Weights.of(after)).act(x, y, 0)
    assert torch.allclose(y, after * ((between * (x @ a[:, :12].T)) @ b[:16].T), atol=1e-4)


@pytest.mark.parametrize("seed", [0, 7, (1 << 63) - 1])
def test_projections_are_drawn_as_peft_draws_them(seed: int) -> None:
    from peft.tuners.vera.model import _kaiming_init

    generator = torch.Generator(device="cpu").manual_seed(seed)
    theirs = [_kaiming_init(shape, generator) for shape in ((16, 100), (333, 16))]
    ours = drawn(seed, {"vera_A": (16, 100), "vera_B": (333, 16)})
    assert all(torch.equal(one, other) for one, other in zip(theirs, ours, strict=True))

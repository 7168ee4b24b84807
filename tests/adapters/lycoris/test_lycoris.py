"""LoHa and LoKr: what they refuse by field or tensor, and the lines of their accounts."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graftwork.adapters.account import Account, account_folder
from graftwork.adapters.lycoris.lokr import factorization
from support.edited import edited
from support.fixtures import Tiny
from support.tiny import save_peft

Whole = dict[str, Path]
CONFIGS = {"loha": "LoHaConfig", "lokr": "LoKrConfig"}
TARGETS = ["q_proj", "down_proj"]
Q0 = "model.layers.0.self_attn.q_proj"


@pytest.fixture(scope="module")
def whole(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Whole:
    root = tmp_path_factory.mktemp("whole")
    config = {"r": 2, "alpha": 6, "target_modules": TARGETS}
    return {name: save_peft(kind, config, tiny.base.folder, root / name) for name, kind in CONFIGS.items()}


def account(folder: Path, tiny: Tiny) -> Account:
    return account_folder(folder, tiny.outline, max_rank=1)


@pytest.mark.parametrize("kind", CONFIGS)
@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"r": 0}, "r: 0"),
        ({"r": 3}, "rank 3"),
        ({"alpha": None}, "alpha: None"),
        ({"rank_pattern": {"q_proj": 3}}, f"{Q0}"),
        ({"rank_pattern": {"q_proj": "2"}}, "rank_pattern"),
        ({"alpha_pattern": {"q_proj": "2"}}, "alpha_pattern"),
        ({"target_modules": ["q_proj"]}, "does not cover"),
        ({"target_modules": [*TARGETS, "lm_head"]}, "lm_head"),
        ({"layers_to_transform": [0]}, "does not cover"),
        ({"modules_to_save": ["lm_head"]}, "modules_to_save"),
        ({"gain": 2.0}, "gain"),
    ],
)
def test_refuses_a_config_by_its_field(
    whole: Whole, tiny: Tiny, tmp_path: Path, kind: str, changes: dict[str, Any], word: str
) -> None:
    made = account(edited(whole[kind], tmp_path / "edited", **changes), tiny)
    assert not made.ok
    assert word in " ".join(made.problems)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"decompose_factor": 4}, "shape [8, 8]"),
        ({"decompose_factor": -2}, "decompose_factor: -2"),
        ({"decompose_both": True}, "lokr_w1_a is missing"),
        ({"decompose_both": 1}, "decompose_both: 1"),
    ],
)
def test_a_kronecker_product_that_the_config_cuts_otherwise_is_refused(
    whole: Whole, tiny: Tiny, tmp_path: Path, changes: dict[str, Any], word: str
) -> None:
    made = account(edited(whole["lokr"], tmp_path / "edited", **changes), tiny)
    assert not made.ok and word in " ".join(made.problems)


@pytest.mark.parametrize(("kind", "part"), [("loha", "hada_t1"), ("lokr", "lokr_t2")])
def test_tensors_of_convolutions_are_refused_by_name(
    whole: Whole, tiny: Tiny, tmp_path: Path, kind: str, part: str
) -> None:
    name = f"base_model.model.{Q0}.{part}"
    folder = edited(whole[kind], tmp_path / "edited", lambda old: old | {name: np.ones((2, 2, 3, 3), np.float32)})
    assert name in " ".join(account(folder, tiny).problems)


@pytest.mark.parametrize("kind", CONFIGS)
def test_the_norm_is_that_of_the_delta(whole: Whole, tiny: Tiny, kind: str) -> None:
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(tiny.base.folder), whole[kind])
    lines = [line for line in account(whole[kind], tiny).tensors if line.norm is not None]
    assert len(lines) == 2 * tiny.outline.num_layers
    for line in lines:
        assert (line.rank, line.scale) == (2, 3.0)
        delta: Any = theirs.get_submodule(f"base_model.model.{line.module}")
        assert line.norm == pytest.approx(float(delta.get_delta_weight("default").norm()), rel=1e-4)


@pytest.mark.parametrize(("kind", "part"), [("loha", "hada_w2_b"), ("lokr", "lokr_w1")])
def test_zero_deltas_have_no_effect_and_say_so(whole: Whole, tiny: Tiny, tmp_path: Path, kind: str, part: str) -> None:
    folder = edited(whole[kind], tmp_path / "zero", lambda old: {name: old[name] * (part not in name) for name in old})
    made = account(folder, tiny)
    assert made.ok and any("no effect" in warning for warning in made.warnings)


@pytest.mark.parametrize("kind", CONFIGS)
def test_a_delta_beyond_float32_is_refused(whole: Whole, tiny: Tiny, tmp_path: Path, kind: str) -> None:
    folder = edited(whole[kind], tmp_path / "huge", lambda old: {name: np.full_like(old[name], 1e25) for name in old})
    assert "overflows" in " ".join(account(folder, tiny).problems)


@given(size=st.integers(1, 20_000), factor=st.integers(-1, 200))
def test_layers_are_cut_as_peft_cuts_them(size: int, factor: int) -> None:
    from peft.tuners.lokr.layer import factorization as theirs

    assert factorization(size, factor) == theirs(size, factor)

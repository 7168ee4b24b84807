"""Whole modules: weights in place of the base's are only those that the base's module has."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from graftwork.adapters.account import account_folder
from support.edited import Tensors, edited
from support.fixtures import Tiny
from support.tiny import save_peft


@pytest.mark.parametrize(("module", "rows"), [("down_proj", 64), ("embed_tokens", 256)])
def test_a_bias_that_the_bases_module_has_not_is_refused_by_name(
    tiny: Tiny, tmp_path: Path, module: str, rows: int
) -> None:
    config = {"r": 4, "target_modules": ["q_proj"], "modules_to_save": [module]}
    whole = save_peft("LoraConfig", config, tiny.base.folder, tmp_path / "whole")
    assert account_folder(whole, tiny.outline, max_rank=4).ok

    def with_bias(tensors: Tensors) -> Tensors:
        weight = next(name for name in tensors if name.endswith(f"{module}.weight"))
        return tensors | {weight.replace("weight", "bias"): np.ones(rows, np.float32)}

    made = account_folder(edited(whole, tmp_path / "biased", with_bias), tiny.outline, max_rank=4)
    assert not made.ok
    assert any(f"{module}.bias: a bias, which" in problem for problem in made.problems), made.problems

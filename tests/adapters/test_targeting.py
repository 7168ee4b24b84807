"""Targets: the modules that a config means are those that PEFT means."""

from __future__ import annotations

from typing import Any

import pytest

from graftwork.adapters.config_fields import ConfigFields
from graftwork.adapters.targeting import read_targets
from support.fixtures import Tiny

Q1 = "model.layers.1.self_attn.q_proj"


@pytest.mark.parametrize(
    "config",
    [
        {"target_modules": ["q_proj", "mlp.up_proj"]},
        {"target_modules": [Q1, "proj"]},
        {"target_modules": r"model\.layers\.[13]\..*(q|down)_proj"},
        {"target_modules": ["q_proj", "v_proj"], "exclude_modules": ["layers.1.self_attn.q_proj"]},
        {"target_modules": ["q_proj", "v_proj"], "exclude_modules": r".*\.1\..*"},
        {"target_modules": ["o_proj"], "layers_to_transform": [1, 3]},
        {"target_modules": ["o_proj"], "layers_to_transform": []},
        {"target_modules": [Q1, "o_proj"], "layers_to_transform": 2, "layers_pattern": "layers"},
        {"target_modules": ["o_proj"], "layers_to_transform": [0], "layers_pattern": ["blocks", "layers"]},
    ],
)
def test_sites_agree_with_peft(tiny: Tiny, config: dict[str, Any]) -> None:
    from peft import LoHaConfig
    from peft.tuners.tuners_utils import check_target_module_exists

    fields = ConfigFields(config)
    ours, theirs = read_targets(fields), LoHaConfig(**config)
    assert not fields.problems()
    want = frozenset(site.path for site in tiny.outline.linears if check_target_module_exists(theirs, site.path))
    assert ours.sites(tiny.outline) == want


def test_all_linear_means_every_linear_layer_but_the_head(tiny: Tiny) -> None:
    targets = read_targets(ConfigFields({"target_modules": "all-linear"}))
    assert targets.sites(tiny.outline) == {site.path for site in tiny.outline.linears}
    assert "lm_head" not in targets.sites(tiny.outline)


def test_modules_and_weights_that_disagree_are_named(tiny: Tiny) -> None:
    targets = read_targets(ConfigFields({"target_modules": ["layers.1.self_attn.q_proj", "lm_head", "norm"]}))
    assert targets.problems(tiny.outline, [Q1])[0].endswith("norm, lm_head.")
    assert any("without weights" in problem and Q1 in problem for problem in targets.problems(tiny.outline, []))
    assert any("cover" in problem for problem in targets.problems(tiny.outline, [Q1, Q1.replace("1", "2")]))

"""The account of a bottleneck adapter: every tensor is used, or the adapter is refused with the reason."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from graftwork.adapters.account import Account, account_folder
from support.bottleneck import WEIGHTS
from support.fixtures import Tiny

Grown = Callable[[str], Path]


def account(folder: Path, tiny: Tiny, **changes: Any) -> Account:
    return account_folder(folder, replace(tiny.outline, **changes), max_rank=64)


def edit_tensors(folder: Path, edit: Callable[[str, Any], tuple[str, Any]]) -> None:
    file = folder / WEIGHTS
    save_file(dict(edit(name, value) for name, value in load_file(file).items()), file)


def edit_config(folder: Path, **changes: Any) -> None:
    file = folder / "adapter_config.json"
    whole = json.loads(file.read_text())
    file.write_text(json.dumps(whole | {"config": whole["config"] | changes}))


def test_the_norm_of_a_module_is_that_of_its_scaled_up_projection(tiny: Tiny, grown: Grown) -> None:
    folder = grown("par_bn")  # scaling 4.0
    norms = {line.module: line.norm for line in account(folder, tiny).tensors if line.norm is not None}
    module = "model.layers.1.output_adapters.adapters.par_bn"
    assert len(norms) == tiny.outline.num_layers
    tensors = load_file(folder / WEIGHTS)
    ends = np.concatenate([4 * tensors[f"{module}.adapter_up.{half}"].ravel() for half in ("weight", "bias")])
    assert norms[module] == pytest.approx(float(np.linalg.norm(ends)), rel=1e-5)


@pytest.mark.parametrize("prefix", ["model.", "base_model.model.model.", "module.model."])
def test_every_prefix_of_a_key_is_the_same_tensor(tiny: Tiny, grown: Grown, prefix: str) -> None:
    folder = grown("compacter")
    edit_tensors(folder, lambda name, value: (prefix + name.removeprefix("model."), value))
    made = account(folder, tiny)
    assert made.ok and not made.unused, made.problems


def test_a_base_without_plain_blocks_is_refused_with_the_reason(tiny: Tiny, grown: Grown) -> None:
    made = account(grown("seq_bn"), tiny, blocks=(), architecture="StrangeForCausalLM")
    assert not made.ok and "StrangeForCausalLM" in made.problems[0] and len(made.unused) == 16


def test_an_invertible_adapter_needs_a_plain_embedding(tiny: Tiny, grown: Grown) -> None:
    made = account(grown("seq_bn_inv"), tiny, embed=None)
    assert not made.ok and "inv_adapter" in made.problems[0]


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"mh_adapter": False}, "attention_adapters"),
        ({"reduction_factor": 8}, "needs [8, 64]"),
        ({"reduction_factor": {"1": 16}}, "reduction_factor: has no number for layer 0"),
        ({"leave_out": [2]}, "layers.2.attention_adapters"),
        ({"ln_after": True}, "adapter_norm_after.weight is missing"),
        ({"scaling": "learned"}, "scaling is missing"),
        ({"phm_layer": True, "phm_dim": 5}, "phm_dim: 5"),
        ({"inv_adapter": "nice", "inv_adapter_reduction_factor": 2}, "F.0.weight is missing"),
        ({"inv_adapter": "nice", "inv_adapter_reduction_factor": 100}, "leaves no features"),
    ],
)
def test_a_config_that_contradicts_the_tensors_is_refused(
    tiny: Tiny, grown: Grown, changes: dict[str, Any], word: str
) -> None:
    folder = grown("double_seq_bn")
    edit_config(folder, **changes)
    made = account(folder, tiny)
    assert not made.ok and word in " ".join(made.problems), made.problems


def test_tensors_of_another_adapters_name_are_not_its_own(tiny: Tiny, grown: Grown) -> None:
    folder = grown("seq_bn")
    edit_tensors(folder, lambda name, value: (name.replace(".seq_bn.", ".other."), value))
    made = account(folder, tiny)
    assert not made.ok and "adapters.seq_bn.adapter_down.0.weight is missing" in made.problems[0]


def test_two_names_of_one_layer_norm_must_agree(tiny: Tiny, grown: Grown) -> None:
    folder = grown("ln")
    twin = "model.layers.1.output_adapters.adapters.ln.adapter_norm_before.bias"
    edit_tensors(folder, lambda name, value: (name, value + 1 if name == twin else value))
    made = account(folder, tiny)
    assert not made.ok and twin in made.problems[0] and "differ" in made.problems[0]


@pytest.mark.parametrize("golden", ["double_seq_bn", "compacter", "seq_bn_inv"])
def test_zero_deltas_have_no_effect_and_say_so(tiny: Tiny, grown: Grown, golden: str) -> None:
    folder = grown(golden)
    ends = (".adapter_up.", ".F.2.", ".G.2.", ".scaling")
    edit_tensors(folder, lambda name, value: (name, value * 0 if any(end in name for end in ends) else value))
    made = account(folder, tiny)
    assert made.ok and any("no effect" in warning for warning in made.warnings)


def test_without_a_delta_it_may_still_change_the_residual_stream(tiny: Tiny, grown: Grown) -> None:
    folder = grown("residual_twice")
    edit_tensors(folder, lambda name, value: (name, value * 0))
    made = account(folder, tiny)
    assert made.ok and not any("no effect" in warning for warning in made.warnings)


@pytest.mark.parametrize("golden", ["par_bn", "compacter"])
def test_matrices_beyond_float32_are_refused(tiny: Tiny, grown: Grown, golden: str) -> None:
    folder = grown(golden)
    edit_tensors(folder, lambda name, value: (name, value * 0 + 3e38 if ".layers.2." in name else value))
    made = account(folder, tiny)
    assert not made.ok and "layers.2.output_adapters" in made.problems[-1] and "overflow" in made.problems[-1]


def test_a_fusion_is_refused(tiny: Tiny, grown: Grown) -> None:
    folder = grown("seq_bn")
    (folder / "adapter_fusion_config.json").write_text("{}")
    assert "adapter_fusion_config.json" in account(folder, tiny).problems[0]


def test_another_base_name_is_a_warning(tiny: Tiny, grown: Grown) -> None:
    folder = grown("seq_bn")
    file = folder / "adapter_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"model_name": "someone/else"}))
    made = account(folder, tiny)
    assert made.ok and any("someone/else" in warning for warning in made.warnings)


@pytest.mark.parametrize("architecture", ["lora", "prefix_tuning", "prompt_tuning", "reft", "union", "mtl_lora"])
def test_other_methods_of_the_library_are_refused_by_name(tiny: Tiny, grown: Grown, architecture: str) -> None:
    folder = grown("seq_bn")
    edit_config(folder, architecture=architecture)
    assert architecture in account(folder, tiny).problems[0]

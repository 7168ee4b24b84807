"""The account: every tensor is used or the adapter is refused, with the reason."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

from graftwork.adapters.account import Account, account_folder
from support.fixtures import Tiny
from support.scale import times
from support.tiny import ALL_LINEARS

Tensors = dict[str, Any]
Q0 = "base_model.model.model.layers.0.self_attn.q_proj"


@pytest.fixture
def copy(tiny: Tiny, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny.adapter("a1"), tmp_path / "copy"))


def edit_config(folder: Path, **changes: Any) -> None:
    file = folder / "adapter_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def edit_tensors(folder: Path, edit: Callable[[Tensors], Tensors]) -> None:
    file = folder / "adapter_model.safetensors"
    save_file(edit(load_file(file)), file)


def account(folder: Path, tiny: Tiny, max_rank: int = 64) -> Account:
    return account_folder(folder, tiny.outline, max_rank=max_rank)


@pytest.mark.parametrize("name", ["a1", "a2", "a3"])
def test_uses_every_tensor_of_what_peft_saves(tiny: Tiny, name: str) -> None:
    made = account(tiny.adapter(name), tiny)
    assert made.ok, made.problems
    assert made.tensors and not made.unused
    assert made.bytes == sum(entry.bytes for entry in made.tensors)


def test_scale_and_norm_are_those_of_the_delta(tiny: Tiny) -> None:
    made = {entry.name: entry for entry in account(tiny.adapter("a1"), tiny).tensors}
    tensors = load_file(tiny.adapter("a1") / "adapter_model.safetensors")
    entry = made[f"{Q0}.lora_B.weight"]
    assert (entry.rank, entry.scale) == (8, 2.0)
    delta = 2.0 * tensors[f"{Q0}.lora_B.weight"] @ tensors[f"{Q0}.lora_A.weight"]
    assert entry.norm == pytest.approx(float(np.linalg.norm(delta)), rel=1e-5)


def test_patterns_and_rslora_decide_rank_and_scale(tiny: Tiny) -> None:
    made = {entry.module: entry for entry in account(tiny.adapter("a2"), tiny).tensors}
    v, down, q = (made[f"model.layers.2.{name}"] for name in ("self_attn.v_proj", "mlp.down_proj", "self_attn.q_proj"))
    assert v.rank == 3 and v.scale == pytest.approx(16 / 3**0.5)
    assert down.scale == pytest.approx(1 / 2)
    assert q.scale == pytest.approx(16 / 2)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"peft_type": "OFT"}, "OFT"),
        ({"peft_type": None}, "peft_type"),
        ({"r": 0}, "r: 0"),
        ({"r": -1}, "r: -1"),
        ({"r": "8"}, "r: '8'"),
        ({"r": 8.0}, "r: 8.0"),
        ({"r": True}, "r: True"),
        ({"r": 4}, "rank 4"),
        ({"lora_alpha": None}, "lora_alpha"),
        ({"lora_alpha": float("nan")}, "lora_alpha"),
        ({"target_modules": None}, "target_modules"),
        ({"target_modules": ["q_proj"]}, "does not cover"),
        ({"target_modules": [*"abc"]}, "does not cover"),
        ({"target_modules": 7}, "target_modules"),
        ({"target_modules": [*ALL_LINEARS, "lm_head"]}, "lm_head"),
        ({"target_modules": [*ALL_LINEARS, "embed_tokens"]}, "embed_tokens"),
        ({"target_modules": "(("}, "regular expression"),
        ({"target_modules": r"(.*?){1,50}(.*?){1,50}(.*?){1,50}[!?]"}, "too long to match"),
        ({"use_dora": True}, "use_dora"),
        ({"lora_bias": True}, "lora_bias"),
        ({"modules_to_save": ["lm_head"]}, "modules_to_save"),
        ({"init_lora_weights": "pissa"}, "pissa"),
        ({"init_lora_weights": "PiSSA_niter_4"}, "pissa"),
        ({"init_lora_weights": "lora_ga"}, "changed base"),
        ({"init_lora_weights": "of tomorrow"}, "not known"),
        ({"init_lora_weights": 7}, "not known"),
        ({"r": 10**400}, "r: a huge number"),
        ({"lora_alpha": 10**400}, "lora_alpha: a huge number"),
        ({"lora_alpha": 1e308}, "lora_alpha"),
        ({"alpha_pattern": {"q_proj": 10**400}}, "alpha_pattern"),
        ({"alpha_pattern": {f"layers.{n}.q_proj": 1 for n in range(3000)}}, "alpha_pattern"),
        ({"target_modules": ["x" * 1000]}, "target_modules"),
        ({"alpha_pattern": {"(.*?){1,50}(.*?){1,50}[!?]|" + "a" * n: 1 for n in range(50)}}, "too long to match"),
        ({"rank_pattern": {"q_proj": "8"}}, "rank_pattern"),
        ({"alpha_pattern": [1]}, "alpha_pattern"),
        ({"layers_to_transform": "0"}, "layers_to_transform"),
        ({"layers_to_transform": [0]}, "does not cover"),
        ({"use_something_new": True}, "use_something_new"),
        ({"delta_gain": 3.0}, "delta_gain"),
        ({"routing": {"a": 1}}, "routing"),
    ],
)
def test_refuses_a_config_by_its_field(copy: Path, tiny: Tiny, changes: dict[str, Any], word: str) -> None:
    edit_config(copy, **changes)
    made = account(copy, tiny)
    assert not made.ok
    assert word.lower() in " ".join(made.problems).lower()


def test_missing_peft_type_is_refused(copy: Path, tiny: Tiny) -> None:
    config = json.loads((copy / "adapter_config.json").read_text())
    del config["peft_type"]
    (copy / "adapter_config.json").write_text(json.dumps(config))
    assert "peft_type" in account(copy, tiny).problems[0]


@pytest.mark.parametrize(
    "changes",
    [
        {"init_lora_weights": "gaussian"},
        {"target_modules": "all-linear"},
        {"target_modules": r".*_proj"},
        {"lora_dropout": 0.3},
        {"my_note": "trained on a Tuesday"},
        {"base_model_name_or_path": "unsloth/B-bnb-4bit"},
        {"base_model_name_or_path": None},
    ],
)
def test_accepts_what_does_not_change_the_answer(copy: Path, tiny: Tiny, changes: dict[str, Any]) -> None:
    edit_config(copy, **changes)
    made = account(copy, tiny)
    assert made.ok, made.problems


@pytest.mark.parametrize("name", ["unsloth/B-bnb-4bit", None, "/home/someone/run-7"])
def test_another_base_name_is_a_warning(copy: Path, tiny: Tiny, name: str | None) -> None:
    edit_config(copy, base_model_name_or_path=name)
    assert any("base_model_name_or_path" in warning for warning in account(copy, tiny).warnings)


@pytest.mark.parametrize(
    "prefix", ["base_model.model.model.", "base_model.model.", "model.", "", "base_model.model." * 2]
)
def test_every_spelling_of_a_key_is_the_same_module(copy: Path, tiny: Tiny, prefix: str) -> None:
    edit_tensors(copy, lambda old: {key.replace("base_model.model.model.", prefix): old[key] for key in old})
    made = account(copy, tiny)
    assert made.ok, made.problems
    assert {entry.module for entry in made.tensors} == {
        entry.module for entry in account(tiny.adapter("a1"), tiny).tensors
    }


def test_layers_the_base_lacks_are_listed(copy: Path, tiny: Tiny) -> None:
    edit_tensors(
        copy,
        lambda old: {
            key.replace("layers.2.", "layers.12.").replace("layers.3.", "layers.13."): old[key] for key in old
        },
    )
    made = account(copy, tiny)
    assert not made.ok and len(made.unused) == 28
    assert "28 tensors" in " ".join(made.problems) and "layers.12" in " ".join(made.problems)


def test_an_empty_pattern_means_no_module(copy: Path, tiny: Tiny) -> None:
    edit_config(copy, alpha_pattern={"": 1000})
    assert {entry.scale for entry in account(copy, tiny).tensors} == {2.0}


def test_thousands_of_patterns_take_no_time(copy: Path, tiny: Tiny) -> None:
    edit_config(copy, alpha_pattern={f"layers.{n}.self_attn.q_proj": 16 for n in range(2000)})
    began = time.process_time()
    assert account(copy, tiny).ok
    assert time.process_time() - began < 2.0, "a bound against minutes, not a benchmark"


def test_half_a_pair_is_refused(copy: Path, tiny: Tiny) -> None:
    edit_tensors(copy, lambda old: {key: value for key, value in old.items() if key != f"{Q0}.lora_B.weight"})
    assert any("lora_B is missing" in problem for problem in account(copy, tiny).problems)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_value_that_is_not_finite_is_refused_by_tensor(copy: Path, tiny: Tiny, value: float) -> None:
    def poison(old: Tensors) -> Tensors:
        old[f"{Q0}.lora_B.weight"][3, 2] = value
        return old

    edit_tensors(copy, poison)
    assert any(f"{Q0}.lora_B.weight" in problem for problem in account(copy, tiny).problems)


@pytest.mark.parametrize("half", ["lora_A", "lora_B"])
def test_a_delta_beyond_float32_is_refused(copy: Path, tiny: Tiny, half: str) -> None:
    def grow(old: Tensors) -> Tensors:
        old[f"{Q0}.{half}.weight"] = np.full_like(old[f"{Q0}.{half}.weight"], 1e38)
        return old

    edit_tensors(copy, grow)
    assert not account(copy, tiny).ok


def test_float64_beyond_float32_is_refused(copy: Path, tiny: Tiny) -> None:
    def widen(old: Tensors) -> Tensors:
        wide = old[f"{Q0}.lora_A.weight"].astype(np.float64)
        wide[0, 0] = 1e300
        return old | {f"{Q0}.lora_A.weight": wide}

    edit_tensors(copy, widen)
    assert not account(copy, tiny).ok


def test_whole_numbers_are_no_weights(copy: Path, tiny: Tiny) -> None:
    edit_tensors(copy, lambda old: old | {f"{Q0}.lora_A.weight": np.ones((8, 64), np.int32)})
    assert any("I32" in problem for problem in account(copy, tiny).problems)


def test_zero_deltas_have_no_effect_and_say_so(copy: Path, tiny: Tiny) -> None:
    edit_tensors(copy, lambda old: {key: value * (0 if "lora_B" in key else 1) for key, value in old.items()})
    made = account(copy, tiny)
    assert made.ok and any("no effect" in warning for warning in made.warnings)


@pytest.mark.parametrize("content", [{}, {"something": np.ones(3, np.float32)}])
def test_nothing_that_matches_is_refused(copy: Path, tiny: Tiny, content: Tensors) -> None:
    edit_tensors(copy, lambda old: content)
    assert not account(copy, tiny).ok


def test_rank_above_the_limit_names_both(copy: Path, tiny: Tiny) -> None:
    problems = " ".join(account(copy, tiny, max_rank=4).problems)
    assert "rank 8" in problems and "max_rank 4" in problems


def test_another_width_names_both_shapes(tiny: Tiny, tmp_path: Path) -> None:
    from dataclasses import replace

    narrow = replace(tiny.outline, linears=tuple(replace(site, in_features=32) for site in tiny.outline.linears))
    made = account_folder(tiny.adapter("a1"), narrow, max_rank=64)
    assert not made.ok
    assert "[8, 64]" in made.problems[0] and "[8, 32]" in made.problems[0]


def test_account_as_json_is_plain_data(tiny: Tiny) -> None:
    made = account(tiny.adapter("a1"), tiny).to_json()
    assert json.loads(json.dumps(made)) == json.loads(json.dumps(made, default=str))
    assert made["ok"] and made["unused"] == []


@settings(max_examples=times(60, 2000), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    config=st.dictionaries(
        st.sampled_from(["peft_type", "r", "lora_alpha", "target_modules", "rank_pattern", "use_rslora", "bias", "x"]),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just("LORA"),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
            max_leaves=4,
        ),
    )
)
def test_any_config_gives_an_account_and_never_an_error(copy: Path, tiny: Tiny, config: dict[str, Any]) -> None:
    (copy / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA"} | config))
    account(copy, tiny)


def test_targets_agree_with_peft(tiny: Tiny) -> None:
    from peft import LoraConfig as PeftConfig
    from peft.tuners.tuners_utils import check_target_module_exists

    from graftwork.adapters.lora.config import read_lora_config
    from graftwork.adapters.lora.targets import targeted_modules

    cases: list[dict[str, Any]] = [
        {"target_modules": ["q_proj", "mlp.up_proj"]},
        {"target_modules": r"model\.layers\.[13]\..*(q|down)_proj"},
        {"target_modules": ["q_proj", "v_proj"], "exclude_modules": ["layers.1.self_attn.q_proj"]},
        {"target_modules": ["o_proj"], "layers_to_transform": [1, 3]},
        {"target_modules": ["o_proj"], "layers_to_transform": 2, "layers_pattern": "layers"},
        {"target_modules": ["o_proj"], "layers_to_transform": [0], "layers_pattern": ["blocks", "layers"]},
    ]
    for case in cases:
        theirs = PeftConfig(**case)
        ours = read_lora_config({"r": 8, "lora_alpha": 8} | case)
        assert not ours.fields.problems()
        want = frozenset(site.path for site in tiny.outline.linears if check_target_module_exists(theirs, site.path))
        assert targeted_modules(ours, tiny.outline) == want, case


def test_a_number_that_overflowed_is_none_in_json(tiny: Tiny) -> None:
    made = account(tiny.adapter("a1"), tiny)
    huge = replace(made, tensors=(replace(made.tensors[0], norm=float("inf"), scale=float("nan")),))
    written = json.loads(json.dumps(huge.to_json(), allow_nan=False))
    assert (written["tensors"][0]["norm"], written["tensors"][0]["scale"]) == (None, None)

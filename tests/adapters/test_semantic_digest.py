"""The semantic digest: the same for the same adapter however it was written, another for every other."""

from __future__ import annotations

import importlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from graftwork.adapters.folder import AdapterFolder
from graftwork.adapters.identity import identify
from graftwork.adapters.semantic_digest import OF_TRAINING, canonical_config
from support.fixtures import Tiny

WEIGHTS = "adapter_model.safetensors"


@pytest.fixture
def folder(tiny: Tiny, tmp_path: Path) -> Path:
    """A2: mixed ranks, rsLoRA."""
    return Path(shutil.copytree(tiny.adapter("a2"), tmp_path / "a2"))


def digest_of(folder: Path) -> str:
    return identify(folder).semantic_digest


def edit(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    file = folder / "adapter_config.json"
    config = json.loads(file.read_text())
    change(config)
    file.write_text(json.dumps(config))


def test_shards_and_pickles_of_the_same_tensors_have_the_same_digest(folder: Path) -> None:
    whole, tensors = digest_of(folder), load_file(folder / WEIGHTS)
    names = sorted(tensors)
    (folder / WEIGHTS).unlink()
    for number, part in enumerate((names[::2], names[1::2]), start=1):
        save_file({name: tensors[name] for name in part}, folder / f"adapter_model-0000{number}-of-00002.safetensors")
    assert digest_of(folder) == whole
    for shard in folder.glob("*.safetensors"):
        shard.unlink()
    transposed = {name: tensor.T.contiguous().T for name, tensor in tensors.items()}
    torch.save(transposed, folder / "adapter_model.bin")
    assert digest_of(folder) == whole


@pytest.mark.parametrize(
    "change",
    [
        lambda config: config.update(peft_version="9.9", base_model_name_or_path="elsewhere", inference_mode=False),
        lambda config: config["target_modules"].reverse(),
        lambda config: config.update(lora_dropout=0.5, init_lora_weights="gaussian", megatron_core="other"),
        lambda config: config.update(brought_by_a_later_peft=None, and_this=False, and_that={}),
        lambda config: [config.pop(field) for field in list(config) if config[field] in (None, False, [], {}, "none")],
        lambda config: config.update(lora_alpha=float(config["lora_alpha"])),
    ],
)
def test_what_does_not_change_the_answer_does_not_change_the_digest(
    folder: Path, change: Callable[[dict[str, Any]], object]
) -> None:
    before = digest_of(folder)
    edit(folder, change)
    assert digest_of(folder) == before


@pytest.mark.parametrize(
    "change",
    [
        lambda config: config.update(r=5),
        lambda config: config.update(lora_alpha=17),
        lambda config: config.update(use_rslora=False),
        lambda config: config["target_modules"].pop(),
        lambda config: config.update(rank_pattern={}),
        lambda config: config.update(use_dora=True),
        lambda config: config.update(unheard_of="text"),
        lambda config: config.update(peft_type="ADALORA"),
    ],
)
def test_what_may_change_the_answer_changes_the_digest(
    folder: Path, change: Callable[[dict[str, Any]], object]
) -> None:
    before = digest_of(folder)
    edit(folder, change)
    assert digest_of(folder) != before


def test_the_order_of_patterns_counts_as_the_first_that_matches_wins() -> None:
    one, other = {"v_proj": 3, "layers.2.v_proj": 2}, {"layers.2.v_proj": 2, "v_proj": 3}
    made = [canonical_config({"peft_type": "LORA", "rank_pattern": pattern}) for pattern in (one, other)]
    assert made[0] != made[1]


@pytest.mark.parametrize("what", ["value", "dtype", "shape", "name"])
def test_every_tensor_counts_by_name_dtype_shape_and_bytes(folder: Path, what: str) -> None:
    before, tensors = digest_of(folder), load_file(folder / WEIGHTS)
    name = min(tensors)
    changed = {
        "value": {name: tensors[name] + 1},
        "dtype": {name: tensors[name].view(torch.int32)},
        "shape": {name: tensors[name].T.contiguous().view(tensors[name].T.shape)},
        "name": {name: tensors[min(set(tensors) - {name})].clone(), min(set(tensors) - {name}): tensors[name].clone()},
    }
    save_file({**tensors, **changed[what]}, folder / WEIGHTS)
    assert digest_of(folder) != before


def test_a_number_beyond_what_json_readers_keep_counts_exactly() -> None:
    made = [canonical_config({"peft_type": "VERA", "projection_prng_key": (1 << 62) + one}) for one in (0, 1)]
    assert made[0] != made[1]


@pytest.mark.parametrize(
    ("kind", "place"),
    [
        ("LORA", "lora.config:_IGNORED"),
        ("ADALORA", "adalora.config:_IGNORED"),
        ("IA3", "ia3.config:_IGNORED"),
        ("LOHA", "lycoris.config:IGNORED"),
        ("LOKR", "lycoris.config:IGNORED"),
        ("VERA", "vera.config:_IGNORED"),
        ("PREFIX_TUNING", "prompt_learning.prefix:_IGNORED"),
        ("PROMPT_TUNING", "prompt_learning.prompt:PromptTuning._ignored"),
        ("P_TUNING", "prompt_learning.prompt:PTuning._ignored"),
    ],
)
def test_what_is_left_out_is_what_the_kind_passes_over(kind: str, place: str) -> None:
    module, _, path = place.partition(":")
    found: Any = importlib.import_module(f"graftwork.adapters.{module}")
    for part in path.split("."):
        found = getattr(found, part)
    also = {"init_lora_weights"} if kind == "LORA" else set()  # read, to refuse what changed the base
    assert OF_TRAINING[kind] == {*found, *also}


def test_the_identity_says_what_the_config_says(folder: Path) -> None:
    config, found = AdapterFolder.open(folder).config, identify(folder)
    assert (found.alpha, found.peft_version) == (config["lora_alpha"], config["peft_version"])
    assert found.target_modules == tuple(sorted(config["target_modules"]))


def test_of_the_adapters_library_only_what_it_trains_with_is_left_out() -> None:
    from graftwork.adapters.bottleneck.config_reader import _HARMLESS

    assert OF_TRAINING["BOTTLENECK"] == _HARMLESS - {"architecture"}
    inner = {"reduction_factor": 16, "dropout": 0.1, "phm_bias": False}
    made = canonical_config({"config": inner, "model_name": "somewhere", "version": "adapters.1.3.0"})
    assert made == {"config": {"reduction_factor": 16, "phm_bias": False}, "version": "adapters.1.3.0"}

"""What a LoRA may hold and is refused for, each by the name of what is wrong."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from graftwork.adapters.account import Account, account_folder
from support.fixtures import Tiny
from support.tiny import save_peft

WEIGHTS = "adapter_model.safetensors"


def account(tiny: Tiny, folder: Path, **config: Any) -> Account:
    file = folder / "adapter_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | config))
    return account_folder(folder, tiny.outline, max_rank=64)


@pytest.fixture
def a1(tiny: Tiny, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny.adapter("a1"), tmp_path / "a1"))


def test_a_bias_of_a_norm_is_refused_by_its_name(tiny: Tiny, a1: Path) -> None:
    name = "base_model.model.model.norm.bias"
    save_file(load_file(a1 / WEIGHTS) | {name: np.ones(64, np.float32)}, a1 / WEIGHTS)
    made = account(tiny, a1, bias="all")
    assert not made.ok and name in made.problems[0] and "model.norm" in made.problems[0]


def test_a_pair_for_another_vocabulary_is_refused_with_both_shapes(tiny: Tiny, tmp_path: Path) -> None:
    config = {"r": 4, "target_modules": ["embed_tokens"]}
    folder = save_peft("LoraConfig", config, tiny.base.folder, tmp_path / "embed")
    tensors = load_file(folder / WEIGHTS)
    [name] = [name for name in tensors if "lora_embedding_A" in name]
    save_file(tensors | {name: np.ones((4, 260), np.float32)}, folder / WEIGHTS)
    made = account(tiny, folder)
    assert not made.ok and "[4, 260]" in made.problems[0] and "[4, 256]" in made.problems[0]


@pytest.mark.parametrize("field", ["kasa_config", "arrow_config", "use_bdlora", "velora_config"])
def test_an_empty_object_still_turns_a_variant_on(tiny: Tiny, a1: Path, field: str) -> None:
    made = account(tiny, a1, **{field: {}})
    assert not made.ok and made.problems[0].startswith(field)


def test_an_invocation_needs_the_task_that_peft_looks_for_it_in(tiny: Tiny, a1: Path) -> None:
    assert account(tiny, a1, alora_invocation_tokens=[5]).ok
    made = account(tiny, a1, alora_invocation_tokens=[5], task_type=None)
    assert not made.ok and "task_type" in made.problems[0]


def test_text_that_cannot_be_written_is_escaped_in_the_account(tiny: Tiny, a1: Path) -> None:
    file = a1 / "adapter_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"\ud800": "x", "modules_to_save": ["\udfff"]}))
    made = account_folder(a1, tiny.outline, max_rank=64)
    assert not made.ok
    written = json.dumps(made.to_json(), ensure_ascii=False, allow_nan=False).encode()
    assert b"\\udfff" in written

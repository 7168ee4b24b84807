"""Random adapters and shapes: every seed another valid adapter, every shape a base that transformers loads."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from graftwork.adapters.account import account_folder
from graftwork.artifacts.bundle import Manifest
from random_adapters import ATTENTION, own_bytes, write_adapter
from shapes import SHAPES, write_base
from support.fixtures import Tiny


def test_each_seed_writes_another_adapter_into_the_same_folder(tiny: Tiny, tmp_path: Path) -> None:
    digests = set()
    for seed in (0, 1, 2, 3999):
        write_adapter(tmp_path, tiny.outline, rank=8, seed=seed, projections=ATTENTION)
        digests.add(Manifest.of_folder(tmp_path).digest())
        account = account_folder(tmp_path, tiny.outline, max_rank=8)
        assert account.ok
        assert account.bytes == own_bytes(tiny.outline, 8, ATTENTION, itemsize=2)
    assert len(digests) == 4


def test_a_shape_is_a_base_that_transformers_loads(tmp_path: Path) -> None:
    small = {
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "vocab_size": 300,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
    }
    for name, config in SHAPES.items():
        folder = write_base(config | small | {"head_dim": 16, "max_window_layers": 2}, tmp_path / name)
        model = AutoModelForCausalLM.from_pretrained(folder)
        assert model.dtype == torch.bfloat16
        assert type(model).__name__ == json.loads((folder / "config.json").read_text())["architectures"][0]
        assert model.lm_head.weight is model.model.embed_tokens.weight
        assert AutoTokenizer.from_pretrained(folder).decode([299]) == "<299>"

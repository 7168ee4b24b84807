"""GGUF files: what llama.cpp reads of our base and adapters is what they are, bit for bit."""

from __future__ import annotations

import json
from pathlib import Path

import gguf
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import AutoModelForCausalLM, GgufConfig

from peers.gguf_files import gguf_name, interleave_halves, write_base, write_lora
from support.tiny import make_base


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_base(tmp_path_factory.mktemp("base"), dtype=torch.bfloat16, rope_theta=10000.0)


def tensors_of(file: Path) -> dict[str, Tensor]:
    """What a GGUF file holds, as float32, rows first."""
    return {
        one.name: torch.from_numpy(gguf.quants.dequantize(one.data, one.tensor_type).copy())
        for one in gguf.GGUFReader(file).tensors
    }


def test_transformers_reads_the_base_back_bit_for_bit(base: Path, tmp_path: Path) -> None:
    write_base(base, tmp_path / "base.gguf")
    read = AutoModelForCausalLM.from_pretrained(
        tmp_path, gguf_file="base.gguf", quantization_config=GgufConfig(dequantize=True), dtype=torch.bfloat16
    )
    written = load_file(base / "model.safetensors")
    assert {name: weights.shape for name, weights in read.state_dict().items()} == {
        name: weights.shape for name, weights in written.items()
    }
    for name, weights in read.state_dict().items():
        assert torch.equal(weights, written[name]), name


def test_an_adapter_whose_product_is_a_weight_is_written_like_the_weight(base: Path, tmp_path: Path) -> None:
    written = load_file(base / "model.safetensors")
    pairs = {}
    for name, weights in written.items():
        if name.endswith("_proj.weight"):
            path = f"base_model.model.{name.removesuffix('.weight')}"
            pairs[f"{path}.lora_A.weight"] = torch.eye(weights.shape[1], dtype=torch.bfloat16)
            pairs[f"{path}.lora_B.weight"] = weights.clone()
    save_file(pairs, tmp_path / "adapter_model.safetensors")
    (tmp_path / "adapter_config.json").write_text(json.dumps({"lora_alpha": 16}))
    whole, parts = (
        tensors_of(write_base(base, tmp_path / "base.gguf")),
        tensors_of(write_lora(tmp_path, base, tmp_path / "lora.gguf")),
    )
    assert len(parts) == 2 * 4 * 7, "A and B, layers, projections"
    for name in (name for name in parts if name.endswith(".lora_a")):
        weight = name.removesuffix(".lora_a")
        assert torch.equal(parts[f"{weight}.lora_b"] @ parts[name], whole[weight]), name


def test_each_heads_halves_are_interleaved() -> None:
    rows = torch.arange(8).view(8, 1)
    assert interleave_halves(rows, heads=2).flatten().tolist() == [0, 2, 1, 3, 4, 6, 5, 7]


def test_names_are_llama_cpps() -> None:
    assert gguf_name("model.layers.12.mlp.down_proj") == "blk.12.ffn_down"
    assert gguf_name("lm_head") == "output"

"""Loading a base: in memory once, equal to transformers' own run, its weights readable through the packed form."""

from __future__ import annotations

import gc
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
import torch

from graftwork.errors import Damaged, Refused
from graftwork.kernels.pair_tiles import WIDTH
from graftwork.kernels.select import kernels_for
from graftwork.models.base import weight_files
from graftwork.models.load import load_model
from graftwork.models.prepare import prepare_base
from graftwork.settings import Settings
from support.fixtures import Tiny
from support.tiny import make_base


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_weights_hash_the_same_through_the_packed_form(tiny: Tiny, dtype: torch.dtype) -> None:
    model = load_model(tiny.base, kernels_for("cpu"), dtype, 512)
    assert model.weights_digest() == model.loaded_digest
    assert (model.loaded_digest == tiny.outline.weights_digest) == (dtype == torch.float32)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("bias", [True, False])
def test_tied_heads_and_biases_are_part_of_the_digest(tmp_path: Path, tied: bool, bias: bool) -> None:
    folder = make_base(tmp_path / "base", tie_word_embeddings=tied, attention_bias=bias, num_hidden_layers=2)
    base = prepare_base(Settings(home=tmp_path / "home", base=str(folder)))
    model = load_model(base, kernels_for("cpu"), torch.float32, 512)
    assert model.weights_digest() == base.outline.weights_digest


@pytest.mark.parametrize("implementation", ["auto", "transformers"])
@pytest.mark.parametrize("device", ["cpu", "reference"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_tied_weight_is_in_memory_once(
    tmp_path: Path, device: str, dtype: torch.dtype, implementation: Literal["auto", "transformers"]
) -> None:
    shape = (256, 48)  # of no other base
    folder = make_base(tmp_path / "base", tie_word_embeddings=True, hidden_size=shape[1], intermediate_size=160)
    base = prepare_base(Settings(home=tmp_path / "home", base=str(folder)))
    model = load_model(base, kernels_for(device), dtype, 512, implementation)
    gc.collect()
    pairs = (shape[0] // WIDTH, shape[1] // 2, WIDTH, 2)
    tensors = [one for one in gc.get_objects() if issubclass(type(one), torch.Tensor)]
    alive = [one for one in tensors if one.shape in (shape, pairs)]
    packed = [one for one in alive if one.is_mkldnn]
    assert len(packed) + len({one.data_ptr() for one in alive if not one.is_mkldnn}) == 1
    assert base.outline.embed is not None
    assert torch.equal(model.weight(base.outline.embed.path), model.weight("lm_head"))


@pytest.mark.parametrize("implementation", ["auto", "transformers"])
@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_weights_do_not_change_with_the_file_they_came_from(
    tmp_path: Path, device: str, implementation: Literal["auto", "transformers"]
) -> None:
    folder = make_base(tmp_path / "base", architecture="Qwen2")  # with biases
    base = prepare_base(Settings(home=tmp_path / "home", base=str(folder)))
    model = load_model(base, kernels_for(device), torch.float32, 512, implementation)
    for file in weight_files(base.folder):
        with file.open("r+b") as written:  # in place, as a mapped file would show it
            written.seek(file.stat().st_size // 4)
            written.write(bytes(file.stat().st_size // 2))
    assert model.weights_digest() == model.loaded_digest


def test_a_sharded_checkpoint_loads(tmp_path: Path) -> None:
    folder = make_base(tmp_path / "base", shard_size="100KB")
    base = prepare_base(Settings(home=tmp_path / "home", base=str(folder)))
    assert load_model(base, kernels_for("cpu"), torch.float32, 512).loaded_digest == base.outline.weights_digest


def test_weights_that_changed_since_the_outline_are_refused(tiny: Tiny) -> None:
    other = replace(tiny.base, outline=replace(tiny.outline, weights_digest="sha256:" + "0" * 64))
    with pytest.raises(Damaged, match="changed"):
        load_model(other, kernels_for("cpu"), torch.float32, 512)


def test_a_file_that_holds_more_or_mixes_dtypes_is_served_all_the_same(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    folder = make_base(tmp_path / "base", tie_word_embeddings=True, num_hidden_layers=2)
    tensors = load_file(folder / "model.safetensors")
    tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"].clone()
    tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = torch.ones(8)
    tensors["model.norm.weight"] = tensors["model.norm.weight"].to(torch.bfloat16)
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    base = prepare_base(Settings(home=tmp_path / "home", base=str(folder)))
    assert base.outline.dtype == "float32"
    model = load_model(base, kernels_for("cpu"), torch.float32, 512)
    assert model.weights_digest() == model.loaded_digest


def test_missing_weights_are_refused_and_not_invented(tiny: Tiny, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    folder = Path(shutil.copytree(tiny.root / "base", tmp_path / "copy"))
    tensors = load_file(folder / "model.safetensors")
    del tensors["model.layers.1.mlp.up_proj.weight"]
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    base = prepare_base(Settings(home=tmp_path / "home", base=str(folder)))
    with pytest.raises(Refused, match=r"layers\.1\.mlp\.up_proj"):
        load_model(base, kernels_for("cpu"), torch.float32, 512)


def test_a_sliding_window_shorter_than_the_context_is_refused(tiny: Tiny, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(tiny.root / "base", tmp_path / "copy"))
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "mistral", "architectures": ["MistralForCausalLM"], "sliding_window": 64}
    (folder / "config.json").write_text(json.dumps(config))
    base = prepare_base(Settings(home=tmp_path / "home", base=str(folder)))
    with pytest.raises(Refused, match="64"):
        load_model(base, kernels_for("cpu"), torch.float32, 512)
    assert load_model(base, kernels_for("cpu"), torch.float32, 64).weights_digest() == base.outline.weights_digest

"""Preparing a base: once, atomically; what cannot be served rightly is refused with the reason."""

from __future__ import annotations

import json
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
import torch

from graftwork.errors import Refused
from graftwork.models import builtin
from graftwork.models.base import base_name, find_base
from graftwork.models.prepare import prepare_base
from graftwork.settings import Settings
from support.fixtures import Tiny
from support.tiny import make_base


@pytest.fixture
def folder(tiny: Tiny, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny.root / "base", tmp_path / "copy"))


def settings_for(folder: Path, tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "home", base=str(folder))


def edit_config(folder: Path, **changes: Any) -> None:
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def test_outline_names_every_linear_layer_but_the_head(tiny: Tiny) -> None:
    paths = [site.path for site in tiny.outline.linears]
    assert len(paths) == 4 * 7 and "lm_head" not in paths and "lm_head" in tiny.outline.modules
    assert tiny.outline.linears[1].out_features == 32  # k_proj: 2 kv heads of 16


def test_a_prepared_base_is_found_again_without_work(tiny: Tiny) -> None:
    found = find_base(tiny.settings)
    assert found is not None and found.outline == tiny.outline


def test_digest_is_of_the_weights_and_not_of_the_files(tiny: Tiny, tmp_path: Path) -> None:
    sharded = make_base(tmp_path / "sharded", shard_size="100KB")
    assert len(list(sharded.glob("model-*.safetensors"))) > 1
    assert prepare_base(settings_for(sharded, tmp_path)).outline.weights_digest == tiny.outline.weights_digest
    other = make_base(tmp_path / "other", seed=5)
    assert prepare_base(settings_for(other, tmp_path)).outline.weights_digest != tiny.outline.weights_digest


def test_changed_weights_are_surveyed_anew(folder: Path, tmp_path: Path) -> None:
    settings = settings_for(folder, tmp_path)
    before = prepare_base(settings).outline.weights_digest
    make_base(folder, seed=9)
    assert find_base(settings) is None
    assert prepare_base(settings).outline.weights_digest != before


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"architectures": ["LlamaForSequenceClassification"]}, "causal"),
        ({"architectures": ["BertForMaskedLM"], "model_type": "bert"}, "causal"),
        ({"model_type": "t5", "architectures": ["T5ForConditionalGeneration"]}, "causal"),
        ({"model_type": "llava", "architectures": ["LlavaForConditionalGeneration"]}, "causal"),
        ({"model_type": "gemma3", "architectures": ["Gemma3ForConditionalGeneration"]}, "wraps its text"),
        ({"model_type": "nothing-known"}, "config.json"),
        ({"quantization_config": {"quant_method": "gptq", "bits": 4}}, "quantised"),
        ({"quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": True}}, "quantised"),
        ({"quantization_config": {"quant_method": "fp8"}}, "quantised"),
        ({"rope_parameters": {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}}, "rotary"),
        (
            {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_layer": 2, "n_head": 4, "n_embd": 64},
            "no linear layers",
        ),
        ({"num_hidden_layers": 10**8}, "at most 1000"),
        ({"head_dim": 5}, "config.json cannot be read: .*even rotary"),
        (
            {"model_type": "opt", "architectures": ["OPTForCausalLM"], "hidden_size": 20, "num_attention_heads": 4}
            | {"head_dim": None},
            "5 numbers each, and only even ones",
        ),
        ({"model_type": "mamba", "architectures": ["MambaForCausalLM"]}, "Mamba|config lacks"),
    ],
)
def test_a_base_that_cannot_be_served_is_refused(
    folder: Path, tmp_path: Path, changes: dict[str, Any], word: str
) -> None:
    edit_config(folder, **changes)
    with pytest.raises(Refused, match=word):
        prepare_base(settings_for(folder, tmp_path))
    assert find_base(settings_for(folder, tmp_path)) is None


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_a_missing_file_is_named(folder: Path, tmp_path: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(Refused, match=name):
        prepare_base(settings_for(folder, tmp_path))


def test_missing_shards_are_named(tmp_path: Path) -> None:
    sharded = make_base(tmp_path / "sharded", shard_size="100KB")
    gone = sorted(sharded.glob("model-*.safetensors"))[1]
    gone.unlink()
    with pytest.raises(Refused, match=gone.name):
        prepare_base(settings_for(sharded, tmp_path))


def test_truncated_weights_are_refused(folder: Path, tmp_path: Path) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-10])
    with pytest.raises(Refused, match="damaged or only half downloaded"):
        prepare_base(settings_for(folder, tmp_path))


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="does not exist"):
        prepare_base(Settings(home=tmp_path, base="/no/such/folder"))


def test_unpacking_is_atomic_and_done_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Path] = []

    def unpack(folder: Path, progress: builtin.Progress) -> None:
        calls.append(folder)
        make_base(folder)
        if len(calls) == 1:
            raise OSError("the disk is full")

    monkeypatch.setitem(builtin.BUILTIN_BASES, "smollm2-135m", unpack)
    settings = Settings(home=tmp_path)
    with pytest.raises(OSError, match="full"):
        prepare_base(settings)
    assert find_base(settings) is None and not list(settings.bases.glob("*/model"))
    threads = [threading.Thread(target=prepare_base, args=(settings,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(calls) == 2
    assert find_base(settings) is not None


@pytest.mark.parametrize(
    ("base", "name"),
    [("smollm2-135m", "smollm2-135m"), ("Org/Some_Model.v1-Chat", "some-model-v1-chat"), ("X/É", "base")],
)
def test_name_follows_the_grammar(base: str, name: str, tmp_path: Path) -> None:
    assert base_name(Settings(home=tmp_path, base=base)) == name


def test_bfloat16_base_keeps_its_type(tmp_path: Path) -> None:
    half = make_base(tmp_path / "half", dtype=torch.bfloat16)
    assert prepare_base(settings_for(half, tmp_path)).outline.dtype == "bfloat16"
